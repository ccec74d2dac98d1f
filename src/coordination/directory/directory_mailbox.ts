import { join } from "node:path";
import { checkCount } from "../../_checks.ts";
import { systemClock } from "../../clock.ts";
import { safeLog } from "../../library_log.ts";
import { jsonCodec } from "../../mailbox/codec.ts";
import { EngineMailbox } from "../../mailbox/engine_mailbox.ts";
import type { MailboxOptions } from "../../mailbox/mailbox.ts";
import { systemRandom } from "../../random.ts";
import { checkAgentId } from "../member_state.ts";
import { DirectoryEngine } from "./directory_engine.ts";

/** Options of {@linkcode DirectoryMailbox.open}. */
export interface DirectoryMailboxOptions extends MailboxOptions {
  /** The maximum number of messages. A `send` above it is refused. @default {Infinity} */
  readonly maxSize?: number;
  /** The longest body, as JSON in UTF-8. @default {262_144} */
  readonly maxBodyBytes?: number;
}

/**
 * A mailbox in a directory, for the processes of one machine. `<base>/<name>/inbox` has a JSON file for
 * each message, and scripts can read and add files. Every receive lists all files, so the mailbox suits
 * thousands of messages, not millions.
 *
 * A waiting receive notices a file of a script within about a second, or at once when the script sets the
 * time of `<base>/<name>` (`touch`), as every `send` does.
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

  /**
   * Opens the mailbox with this name, and creates its folders.
   *
   * @throws {TypeError} if the name is not 1 to 64 letters, digits, _ or -
   */
  static async open<T, R = unknown>(
    base: string,
    name: string,
    options: DirectoryMailboxOptions = {},
  ): Promise<DirectoryMailbox<T, R>> {
    const { clock = systemClock, random = systemRandom } = options;
    const engine = new DirectoryEngine({
      path: join(base, checkAgentId(name)),
      name,
      maxSize: checkCount("maxSize", options.maxSize ?? Infinity),
      clock,
      log: safeLog(options.log),
      random,
    });
    const mailbox = new DirectoryMailbox<T, R>(name, engine, options);
    await engine.open();
    return mailbox;
  }
}
