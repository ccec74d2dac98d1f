import type { Cancel, Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import type { Calls } from "./_calls.ts";
import { contentOf } from "./_delivery.ts";
import { JetStreamError, NO_MESSAGE } from "./_errors.ts";
import { type JetStream, type StoredMessage, textOf } from "./_jetstream.ts";
import type { Names } from "./_names.ts";
import type { Outbox } from "./_outbox.ts";
import type { Site } from "./_site.ts";

/** A message is removed a moment after it counts as done: it is a stray when it is there still after this. */
const MOMENT_MS = 1_000;

/** What is being worked on may hide strays: they are looked for until it is done, less and less often. */
const LONGEST_PAUSE_MS = 60_000;

/** So many are looked at in one go. */
const MANY = 100;

/** What looking for strays needs. */
export interface StraysOptions {
  readonly mailbox: string;
  readonly names: Names;
  readonly clock: Clock;
  readonly log: Log;
  readonly calls: Calls;
  readonly jetStream: JetStream;
  readonly site: Site;
  readonly outbox: Outbox;
}

/**
 * Messages that are in the stream and would never be delivered: the consumer takes them for done. A server
 * that is killed leaves some, because it writes down what is done before it writes down what is gone. They
 * are most probably done; but whoever has only the server's word for it does them again rather than lose
 * one.
 *
 * `idle ─▶ looking ─▶ idle`, once for each time that the server may have been killed: from then on, until
 * all that it had delivered before is gone.
 */
export class Strays {
  readonly #options: StraysOptions;
  #started = false;
  #pauseMs = 0;
  /** What was delivered later is none. */
  #until: number | undefined;
  #suspects: ReadonlySet<number> = new Set();
  #cancel: Cancel | undefined;

  constructor(options: StraysOptions) {
    this.#options = options;
  }

  /** Looks, unless it was done since the server was there last. */
  start(): void {
    if (this.#started) return;
    this.#started = true;
    this.#until = undefined;
    this.#suspects = new Set();
    this.#pauseMs = MOMENT_MS;
    this.#lookLater();
  }

  /** The server was away, or has another stream: the next start looks again. */
  stop(): void {
    this.#started = false;
    this.#cancel?.();
  }

  /** Not all processes at a time: they need not find the same ones. */
  #lookLater(): void {
    this.#cancel?.();
    this.#cancel = this.#options.clock.schedule(this.#pauseMs * (1 + Math.random()), () => {
      const { calls, log } = this.#options;
      calls.background(this.#look()).catch((error) => {
        log.debug("could not look for messages that are never delivered", { error });
        return true;
      }).then((again) => again && this.#started && this.#lookLater());
    });
  }

  /** True when there may be more. */
  async #look(): Promise<boolean> {
    const { mailbox, names, jetStream, site, log } = this.#options;
    const what = `look for strays ("${mailbox}")`;
    this.#pauseMs = Math.min(2 * this.#pauseMs, LONGEST_PAUSE_MS);
    const { delivered, ack_floor } = await jetStream.progress(what, names.stream, site.consumer);
    this.#until ??= delivered.stream_seq;
    const floor = Math.min(delivered.stream_seq, ack_floor.stream_seq);
    const found = await this.#upTo(what, floor);
    const strays = found.filter((seq) => this.#suspects.has(seq));
    for (const seq of strays) await this.#sendAgain(what, seq);
    if (strays.length > 0) {
      log.warn(
        `${strays.length} messages of "${mailbox}" were on the server and would not have been delivered ` +
          "any more, as after a crash of it; they were sent again, and may be done twice",
      );
    }
    this.#suspects = new Set(found);
    if (found.length > 0) this.#pauseMs = MOMENT_MS;
    return found.length > 0 || floor < this.#until;
  }

  async #upTo(what: string, floor: number): Promise<number[]> {
    const found: number[] = [];
    for (let seq = 0; found.length < MANY;) {
      seq = (await this.#next(what, seq + 1))?.seq ?? Infinity;
      if (seq > floor) break;
      found.push(seq);
    }
    return found;
  }

  /** The copy comes first: a crash in between leaves both. */
  async #sendAgain(what: string, seq: number): Promise<void> {
    const { jetStream, names, outbox } = this.#options;
    const stray = await this.#next(what, seq);
    if (stray?.seq !== seq) return; // somebody else was quicker
    const { head: [id, replyTo], body } = contentOf(textOf(stray), seq);
    const entry = { id, body, replyTo: replyTo ?? undefined, delayMs: 0 };
    await outbox.sendAgain(entry, `${seq}-${stray.time.replace(/\D/g, "")}`);
    try {
      await jetStream.remove(what, names.stream, stray);
    } catch (error) {
      if (!(error instanceof JetStreamError)) throw error; // it is gone
    }
  }

  async #next(what: string, seq: number): Promise<StoredMessage | undefined> {
    const { jetStream, names } = this.#options;
    try {
      return await jetStream.get(what, names.stream, { seq, next_by_subj: `${names.subjects}*` });
    } catch (error) {
      if (error instanceof JetStreamError && error.code === NO_MESSAGE) return undefined;
      throw error;
    }
  }
}
