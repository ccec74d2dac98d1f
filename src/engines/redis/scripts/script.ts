/**
 * What all scripts begin with. Time is the server's alone, in microseconds. A call that its caller has
 * given up by then does nothing: it may have waited in a buffer for as long as the server was frozen,
 * and what it took would be with nobody.
 */
const PRELUDE = `
local META, READY, RETURNED, DUE, MESSAGES, STATE, PROGRESS, IDS = unpack(KEYS)
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[1]) then return { now } end
-- As text a time is written once, and not for every argument.
local function at(time)
  return string.format('%.0f', time)
end
-- A user who may not publish has done everything else by now: an error would look as if he had not.
local function wake(channel)
  redis.pcall('PUBLISH', channel, '')
end
`;

/** One script. It answers with the server's time and, unless it came too late, with what it did. */
export class Script {
  readonly text: string;
  #sha: Promise<string> | undefined;

  constructor(...parts: readonly string[]) {
    this.text = [PRELUDE, ...parts].join("\n");
  }

  /** The name the server knows it by. */
  sha(): Promise<string> {
    return this.#sha ??= sha1(this.text);
  }
}

async function sha1(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-1", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
