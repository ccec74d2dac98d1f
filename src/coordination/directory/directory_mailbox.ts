import { join } from "node:path";
import { checkCount } from "../../_checks.ts";
import { systemClock } from "../../clock.ts";
import { safeLog } from "../../library_log.ts";
import { jsonCodec } from "../../mailbox/codec.ts";
import { EngineMailbox } from "../../mailbox/engine_mailbox.ts";
import type { MailboxOptions } from "../../mailbox/mailbox.ts";
import { checkAgentId } from "../agent_state.ts";
import { DirectoryEngine } from "./directory_engine.ts";

/** Options of {@linkcode DirectoryMailbox.open}. */
export interface DirectoryMailboxOptions extends MailboxOptions {
  /** Above this `send` is refused; nothing is ever evicted. @default {Infinity} */
  readonly maxSize?: number;
  /** The longest body, as JSON in UTF-8. @default {262_144} */
  readonly maxBodyBytes?: number;
}

/**
 * A mailbox in a directory, for the processes of one machine: `<base>/<name>/inbox` has a JSON file for
 * each message, which scripts can read and add to. It has the whole contract; a receive looks at the
 * names of all files, so that it is made for some thousands of messages and not for millions.
 *
 * A receive that waits notices a file of a script within about a second, and at once when the script
 * sets the time of `<base>/<name>` (`touch`), as every `send` does.
 *
 * @example
 * ```ts
 * import { mkdtemp, rm } from "node:fs/promises";
 * import { tmpdir } from "node:os";
 * import { join } from "node:path";
 * import { DirectoryMailbox } from "@lastcall/lastcall/coordination";
 *
 * const base = await mkdtemp(join(tmpdir(), "messages-"));
 * const inbox = await DirectoryMailbox.open<string>(base, "worker-1");
 * await inbox.send("tea");
 * const [message] = await inbox.receive();
 * console.assert(message?.body === "tea");
 * await message?.acknowledge();
 * await inbox.close();
 * await rm(base, { recursive: true });
 * ```
 */
export class DirectoryMailbox<T, R = unknown> extends EngineMailbox<T, R, string> {
  private constructor(name: string, engine: DirectoryEngine, options: DirectoryMailboxOptions) {
    super(name, engine, jsonCodec(options.maxBodyBytes), options);
  }

  /** Opens the mailbox of this name, and makes its folders where they are not there. */
  static async open<T, R = unknown>(
    base: string,
    name: string,
    options: DirectoryMailboxOptions = {},
  ): Promise<DirectoryMailbox<T, R>> {
    const { clock = systemClock } = options;
    const log = safeLog(options.log);
    const maxSize = checkCount("maxSize", options.maxSize ?? Infinity);
    const engine = new DirectoryEngine(join(base, checkAgentId(name)), name, maxSize, clock, log);
    const mailbox = new DirectoryMailbox<T, R>(name, engine, options);
    await engine.open();
    return mailbox;
  }
}
