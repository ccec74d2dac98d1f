/**
 * The common start of all scripts. All times are in microseconds by the server's clock. A call that runs
 * after its expiry does nothing: it waited in a buffer while the server was frozen, its caller has timed
 * out, and no worker would receive its messages.
 */
const PRELUDE = `
local META, READY, RETURNED, DUE, MESSAGES, STATE, PROGRESS, IDS = unpack(KEYS)
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[1]) then return { now } end
-- Formats a time once instead of once per argument.
local function at(time)
  return string.format('%.0f', time)
end
-- pcall, because the script has made its changes: without the permission to publish it must not fail.
local function wake(channel)
  redis.pcall('PUBLISH', channel, '')
end
`;

/** A Lua script. It replies with the server's time and, unless it ran after its expiry, with its results. */
export class Script {
  readonly text: string;
  #sha: Promise<string> | undefined;

  constructor(...parts: readonly string[]) {
    this.text = [PRELUDE, ...parts].join("\n");
  }

  /** Returns the SHA-1 by which the server identifies the script. */
  sha(): Promise<string> {
    return this.#sha ??= sha1(this.text);
  }
}

async function sha1(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-1", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
