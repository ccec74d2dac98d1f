/** The simplest model of a mailbox: one list that every call searches from its start. */

/** The result of settling a delivery. */
export type Result = "done" | "ReceiptHandleExpiredError" | "MessageFinalizedError";

/** A delivery in the model. */
export interface ModelDelivery {
  readonly message: ModelMessage;
  final: boolean;
}

/** A message in the model. Its body is its serial number. */
export interface ModelMessage {
  readonly serial: number;
  /** Undefined until the first receive when the mailbox chose it. */
  id: string | undefined;
  /** When it becomes visible. */
  visibleAt: number;
  deliveryCount: number;
  releases: number;
  checkpoint: number | undefined;
  /** The last delivery, until it is settled. */
  holder: ModelDelivery | undefined;
}

/** The model of a mailbox and its dead letters. */
export class Model {
  now = 0;
  /** All messages, oldest first. */
  messages: ModelMessage[] = [];
  readonly dead: Pick<ModelMessage, "serial" | "id" | "checkpoint">[] = [];
  readonly acknowledged: Set<number> = new Set();
  readonly purged: Set<number> = new Set();
  /** All messages that were ever stored. */
  readonly confirmed: Set<number> = new Set();

  /** Returns false for a duplicate. */
  send(serial: number, id: string, delayMs: number): boolean {
    if (this.#has(id)) return false;
    this.confirmed.add(serial);
    this.#store(serial, id, delayMs);
    return true;
  }

  receive(max: number, visibilityMs: number): ModelDelivery[] {
    const visible = this.messages.filter(({ visibleAt }) => visibleAt <= this.now).slice(0, max);
    return visible.map((message) => {
      message.deliveryCount++;
      message.visibleAt = this.now + visibilityMs;
      return message.holder = { message, final: false };
    });
  }

  acknowledge(delivery: ModelDelivery): Result {
    return this.#settle(delivery, (message) => {
      this.#remove(message);
      this.acknowledged.add(message.serial);
    });
  }

  nack(delivery: ModelDelivery, delayMs: number, countsAttempt: boolean): Result {
    return this.#settle(delivery, (message) => {
      message.visibleAt = this.now + delayMs;
      if (!countsAttempt) message.deliveryCount--;
    });
  }

  release(delivery: ModelDelivery): Result {
    return this.#settle(delivery, (message) => {
      message.visibleAt = this.now;
      message.releases++;
      if (message.releases <= 5) message.deliveryCount--;
    });
  }

  deadLetter(delivery: ModelDelivery): Result {
    return this.#settle(delivery, (message) => {
      this.#remove(message);
      const { serial, id, checkpoint } = message;
      this.dead.push({ serial, id, checkpoint });
    });
  }

  extend(delivery: ModelDelivery, ms: number): Result {
    return this.#change(delivery, (message) => {
      message.visibleAt = Math.max(message.visibleAt, this.now + ms);
    });
  }

  checkpoint(delivery: ModelDelivery, checkpoint: number): Result {
    return this.#change(delivery, (message) => {
      message.checkpoint = checkpoint;
    });
  }

  redrive(max: number): number {
    const letters = this.dead.splice(0, max);
    for (const { serial, id, checkpoint } of letters) {
      this.#store(serial, this.#has(id) ? undefined : id, 0, checkpoint);
    }
    return letters.length;
  }

  purge(): number {
    const { length } = this.messages;
    for (const { serial } of this.messages) this.purged.add(serial);
    this.messages = [];
    return length;
  }

  #has(id: string | undefined): boolean {
    return this.messages.some((it) => it.id === id);
  }

  #store(serial: number, id: string | undefined, delayMs: number, checkpoint?: number): void {
    this.messages.push({
      serial,
      id,
      visibleAt: this.now + delayMs,
      deliveryCount: 0,
      releases: 0,
      checkpoint,
      holder: undefined,
    });
  }

  #remove(message: ModelMessage): void {
    this.messages.splice(this.messages.indexOf(message), 1);
  }

  #change(delivery: ModelDelivery, act: (message: ModelMessage) => void): Result {
    const { message, final } = delivery;
    if (final) return "MessageFinalizedError";
    const there = this.messages.includes(message);
    if (!there || message.holder !== delivery || message.visibleAt <= this.now) {
      return "ReceiptHandleExpiredError";
    }
    act(message);
    return "done";
  }

  #settle(delivery: ModelDelivery, act: (message: ModelMessage) => void): Result {
    const result = this.#change(delivery, (message) => {
      act(message);
      message.holder = undefined;
    });
    if (result === "done") delivery.final = true;
    return result;
  }
}
