import { nextTurn } from "../../src/clock.ts";
import type {
  Delivery,
  Engine,
  EngineStats,
  Entry,
  Handover,
  Received,
  StoredMessage,
} from "../../src/mailbox/engine.ts";
import type { Capabilities, RateLimit } from "../../src/mailbox/mailbox.ts";

/**
 * Wraps an engine as if it was behind a network: every call takes a turn in each direction, and a delivery is
 * a copy of the message at the time of its receive.
 */
export class RemoteEngine<B> implements Engine<B> {
  readonly #inner: Engine<B>;
  readonly #originals = new WeakMap<Delivery<B>, Delivery<B>>();

  constructor(inner: Engine<B>) {
    this.#inner = inner;
  }

  get capabilities(): Capabilities {
    return this.#inner.capabilities;
  }

  send(entries: readonly Entry<B>[]): Promise<readonly boolean[]> {
    return travel(() => this.#inner.send(entries));
  }

  async receive(max: number, visibilityMs: number, waits?: boolean): Promise<Received<B>> {
    return await travel(async () => {
      const { deliveries, nextDueMs } = await this.#inner.receive(max, visibilityMs, waits);
      return { deliveries: deliveries.map((delivery) => this.#copy(delivery)), nextDueMs };
    });
  }

  acknowledge(deliveries: readonly Delivery<B>[]): Promise<readonly boolean[]> {
    return travel(() => this.#inner.acknowledge(this.#own(deliveries)));
  }

  extend(deliveries: readonly Delivery<B>[], ms: number): Promise<readonly boolean[]> {
    return travel(() => this.#inner.extend(this.#own(deliveries), ms));
  }

  nack(
    deliveries: readonly Delivery<B>[],
    delayMs: number,
    countsAttempt: boolean,
  ): Promise<readonly boolean[]> {
    return travel(() => this.#inner.nack(this.#own(deliveries), delayMs, countsAttempt));
  }

  release(deliveries: readonly Delivery<B>[]): Promise<readonly boolean[]> {
    return travel(() => this.#inner.release(this.#own(deliveries)));
  }

  deadLetter(delivery: Delivery<B>, letter: Entry<B>): Promise<boolean> {
    return travel(() => this.#inner.deadLetter(this.#originals.get(delivery)!, letter));
  }

  checkpoint(delivery: Delivery<B>, checkpoint: B): Promise<boolean> {
    return travel(() => this.#inner.checkpoint(this.#originals.get(delivery)!, checkpoint));
  }

  peek(max: number, skip?: number): Promise<readonly StoredMessage<B>[]> {
    return travel(() => this.#inner.peek(max, skip));
  }

  count(): Promise<number> {
    return travel(() => this.#inner.count());
  }

  stats(): Promise<EngineStats> {
    return travel(() => this.#inner.stats());
  }

  find(id: string): Promise<StoredMessage<B> | undefined> {
    return travel(() => this.#inner.find?.(id));
  }

  cancel(id: string): Promise<boolean> {
    return travel(() => this.#inner.cancel?.(id) ?? false);
  }

  deliverNow(id: string): Promise<boolean> {
    return travel(() => this.#inner.deliverNow?.(id) ?? false);
  }

  pause(forMs: number): Promise<void> {
    return travel(() => this.#inner.pause?.(forMs));
  }

  rateLimit(limit: RateLimit | undefined): Promise<void> {
    return travel(() => this.#inner.rateLimit?.(limit));
  }

  onCancel(listener: (id: string) => void): () => void | Promise<void> {
    return this.#inner.onCancel?.(listener) ?? (() => {});
  }

  queues(): Promise<readonly string[]> {
    return travel(() => this.#inner.queues!());
  }

  drop(): Promise<void> {
    return travel(() => this.#inner.drop?.());
  }

  queue(name: string): Engine<B> {
    return new RemoteEngine(this.#inner.queue!(name));
  }

  purge(): Promise<number> {
    return travel(() => this.#inner.purge());
  }

  onWake(listener: (handover?: Handover<B>) => void): () => void | Promise<void> {
    return this.#inner.onWake((handover) => {
      listener(
        handover && { ...handover, deliveries: handover.deliveries.map((it) => this.#copy(it)) },
      );
    });
  }

  deadLetters(): Engine<B> {
    return new RemoteEngine(this.#inner.deadLetters());
  }

  close(): Promise<void> {
    return travel(() => this.#inner.close());
  }

  #copy(delivery: Delivery<B>): Delivery<B> {
    const { id, body, meta, receiptHandle, deliveryCount, enqueuedAt, checkpoint } = delivery;
    const { leaseExpiries } = delivery;
    const copy: Delivery<B> = {
      id,
      body,
      meta,
      receiptHandle,
      deliveryCount,
      leaseExpiries,
      enqueuedAt,
      checkpoint,
    };
    this.#originals.set(copy, delivery);
    return copy;
  }

  #own(deliveries: readonly Delivery<B>[]): Delivery<B>[] {
    return deliveries.map((delivery) => this.#originals.get(delivery)!);
  }
}

async function travel<T>(act: () => T | Promise<T>): Promise<T> {
  await nextTurn();
  const answer = await act();
  await nextTurn();
  return answer;
}
