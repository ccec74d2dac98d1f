import type { EngineStats, StoredMessage } from "../../mailbox/engine.ts";
import { peeked } from "./_delivery.ts";
import type { StreamMessage } from "./_jetstream.ts";
import type { Leases } from "./_leases.ts";
import type { Notes } from "./_notes.ts";
import type { Queue } from "./_queue.ts";
import type { Streams } from "./_streams.ts";

/** Reads what a queue has, without receiving it. */
export class Inspection {
  readonly #queue: Queue;
  readonly #streams: Streams;
  readonly #notes: Notes;
  readonly #leases: Leases;

  constructor(queue: Queue, streams: Streams, notes: Notes, leases: Leases) {
    this.#queue = queue;
    this.#streams = streams;
    this.#notes = notes;
    this.#leases = leases;
  }

  /** Knows the delivery count of messages that this process holds. The server does not report others. */
  async peek(max: number, skip: number): Promise<readonly StoredMessage<string>[]> {
    const what = this.#queue.what("peek");
    return await this.#streams.use(async () => {
      const held = this.#leases.bySequence();
      const messages: StoredMessage<string>[] = [];
      for (let seq = await this.#lastOf(what, skip); messages.length < max;) {
        const found = await this.#next(what, seq + 1);
        if (found === undefined) break;
        seq = found.seq;
        messages.push(peeked(found, held.get(seq)?.deliveryCount ?? 0));
      }
      return messages;
    });
  }

  async count(): Promise<number> {
    const { jetStream, names } = this.#queue;
    const what = this.#queue.what("count");
    return (await this.#streams.use(() => jetStream.stream(what, names.stream))).state.messages;
  }

  /**
   * Counts every message that was delivered and not settled as in flight: the server does not tell which of
   * them were released, or wait for their retry. A message that was sent with a delay counts as waiting until
   * a receive has read its delay. The oldest message is the oldest one that was never delivered.
   */
  async stats(): Promise<EngineStats> {
    const { jetStream, names } = this.#queue;
    const what = this.#queue.what("count");
    const { messages, pending, next } = await this.#streams.use(async ({ consumer }) => {
      const [{ state }, { num_ack_pending, delivered }] = await Promise.all([
        jetStream.stream(what, names.stream),
        jetStream.consumer(what, names.stream, consumer),
      ]);
      const next = await this.#next(what, delivered.stream_seq + 1);
      return { messages: state.messages, pending: num_ack_pending, next };
    });
    const inFlight = Math.min(pending, messages); // the answers are of two moments
    const counts = { waiting: messages - inFlight, inFlight };
    if (next === undefined || counts.waiting === 0) return counts;
    const now = await this.#notes.serverTime(what);
    return { ...counts, oldestWaitingMs: Math.max(0, now - Date.parse(next.time)) };
  }

  /** Returns the sequence number of the last one of the first `count` messages; 0 for none. */
  async #lastOf(what: string, count: number): Promise<number> {
    if (count === 0) return 0;
    const { jetStream, names } = this.#queue;
    const { state } = await jetStream.stream(what, names.stream, { deleted_details: true });
    let last = state.first_seq + count - 1;
    for (const seq of state.deleted ?? []) {
      if (seq > last) break;
      last++;
    }
    return last;
  }

  /** Returns the first stored message from this sequence number on. */
  #next(what: string, seq: number): Promise<StreamMessage | undefined> {
    const { jetStream, names } = this.#queue;
    return jetStream.get(what, names.stream, { seq, next_by_subj: `${names.subjects}*` });
  }
}
