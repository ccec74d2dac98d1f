import type { Cancel } from "../../clock.ts";
import { parsePayload } from "./_delivery.ts";
import { JetStreamError } from "./_errors.ts";
import type { StreamMessage } from "./_jetstream.ts";
import type { Queue } from "./_queue.ts";
import type { Sender } from "./_sender.ts";
import type { Streams } from "./_streams.ts";

/** The server removes an acknowledged message within this time. One that is still stored is orphaned. */
const REMOVAL_DELAY_MS = 1_000;

/**
 * Messages in progress can hide orphaned ones, so checks continue with growing pauses until they are
 * settled.
 */
const MAX_PAUSE_MS = 60_000;

/** The most messages that one check reads. */
const MAX_PER_CHECK = 100;

/**
 * Finds orphaned messages: they are stored, but the consumer counts them as acknowledged and never
 * delivers them. A killed server leaves some, because it saves acknowledgements before it saves removals.
 * Most of them were handled. The engine sends them again rather than risk losing one.
 *
 * `idle ─▶ checking ─▶ idle`, after each time the server may have been killed. Checks end when all
 * messages delivered before have been removed.
 */
export class OrphanedMessages {
  readonly #queue: Queue;
  readonly #streams: Streams;
  readonly #sender: Sender;
  #started = false;
  #pauseMs = 0;
  /** The last sequence number that can be orphaned. */
  #lastDelivered: number | undefined;
  #suspects: ReadonlySet<number> = new Set();
  #cancel: Cancel | undefined;

  constructor(queue: Queue, streams: Streams, sender: Sender) {
    this.#queue = queue;
    this.#streams = streams;
    this.#sender = sender;
  }

  /** Starts checks, unless they have run since the last connection. */
  start(): void {
    if (this.#started) return;
    this.#started = true;
    this.#lastDelivered = undefined;
    this.#suspects = new Set();
    this.#pauseMs = REMOVAL_DELAY_MS;
    this.#scheduleCheck();
  }

  /** Stops checks after the connection was lost or the stream replaced. The next start begins again. */
  stop(): void {
    this.#started = false;
    this.#cancel?.();
  }

  /** The random pause keeps processes from resending the same messages. */
  #scheduleCheck(): void {
    const { mailbox, clock, random, calls, log } = this.#queue;
    this.#cancel?.();
    this.#cancel = clock.schedule(this.#pauseMs * (1 + random.number()), () => {
      calls.track(this.#check()).catch((error) => {
        log.debug("cannot look for orphaned messages on NATS; the engine tries again", {
          mailbox,
          error,
        });
        return true;
      }).then((again) => again && this.#started && this.#scheduleCheck());
    });
  }

  /** Returns true when more orphaned messages may exist. */
  async #check(): Promise<boolean> {
    const { mailbox, names, jetStream, log } = this.#queue;
    const what = this.#queue.what("look for orphaned messages");
    this.#pauseMs = Math.min(2 * this.#pauseMs, MAX_PAUSE_MS);
    const { delivered, ack_floor } = await jetStream.consumer(
      what,
      names.stream,
      this.#streams.consumer,
    );
    this.#lastDelivered ??= delivered.stream_seq;
    const floor = Math.min(delivered.stream_seq, ack_floor.stream_seq);
    const found = await this.#findUpTo(what, floor);
    const orphans = found.filter((seq) => this.#suspects.has(seq));
    for (const seq of orphans) await this.#resend(what, seq);
    if (orphans.length > 0) {
      log.warn(
        "sent orphaned messages of a crashed NATS server again; handlers may get them twice",
        {
          mailbox,
          count: orphans.length,
        },
      );
    }
    this.#suspects = new Set(found);
    if (found.length > 0) this.#pauseMs = REMOVAL_DELAY_MS;
    return found.length > 0 || floor < this.#lastDelivered;
  }

  async #findUpTo(what: string, floor: number): Promise<number[]> {
    const found: number[] = [];
    for (let seq = 0; found.length < MAX_PER_CHECK;) {
      seq = (await this.#next(what, seq + 1))?.seq ?? Infinity;
      if (seq > floor) break;
      found.push(seq);
    }
    return found;
  }

  /** Stores the copy first, so that a crash in between leaves both. */
  async #resend(what: string, seq: number): Promise<void> {
    const { jetStream, names } = this.#queue;
    const orphan = await this.#next(what, seq);
    if (orphan?.seq !== seq) return; // another process has resent it
    const message = { ...parsePayload(orphan.text, seq), delayMs: 0 };
    await this.#sender.sendOnce("resend", message, `s-${seq}-${orphan.time.replace(/\D/g, "")}`);
    try {
      await jetStream.remove(what, names.stream, orphan);
    } catch (error) {
      if (!(error instanceof JetStreamError)) throw error; // it was removed already
    }
  }

  #next(what: string, seq: number): Promise<StreamMessage | undefined> {
    const { jetStream, names } = this.#queue;
    return jetStream.get(what, names.stream, { seq, next_by_subj: `${names.subjects}*` });
  }
}
