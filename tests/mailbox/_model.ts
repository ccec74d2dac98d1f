/** What a mailbox is, said as simply as possible: one list, searched from the start every time. */

/** How settling a delivery ends. */
export type Verdict = "done" | "ReceiptHandleExpiredError" | "MessageFinalizedError";

/** One delivery, as the model knows it. */
export interface ModelDelivery {
  readonly message: ModelMessage;
  final: boolean;
}

/** One message, by the number that is its body. */
export interface ModelMessage {
  readonly serial: number;
  /** Undefined until it is received, when the mailbox has given it a new one. */
  id: string | undefined;
  /** From when it can be received. */
  visibleAt: number;
  deliveryCount: number;
  releases: number;
  checkpoint: number | undefined;
  /** The last delivery, as long as the message was not given back. */
  holder: ModelDelivery | undefined;
}

/** The mailbox. */
export class Model {
  now = 0;
  /** Everything that is there, oldest first. */
  messages: ModelMessage[] = [];
  readonly dead: Pick<ModelMessage, "serial" | "id" | "checkpoint">[] = [];
  readonly acknowledged: Set<number> = new Set();
  readonly purged: Set<number> = new Set();
  /** Every message that was stored, ever. */
  readonly confirmed: Set<number> = new Set();

  /** False for a duplicate. */
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

  acknowledge(delivery: ModelDelivery): Verdict {
    return this.#settle(delivery, (message) => {
      this.#remove(message);
      this.acknowledged.add(message.serial);
    });
  }

  nack(delivery: ModelDelivery, delayMs: number, countsAttempt: boolean): Verdict {
    return this.#settle(delivery, (message) => {
      message.visibleAt = this.now + delayMs;
      if (!countsAttempt) message.deliveryCount--;
    });
  }

  release(delivery: ModelDelivery): Verdict {
    return this.#settle(delivery, (message) => {
      message.visibleAt = this.now;
      message.releases++;
      if (message.releases <= 5) message.deliveryCount--;
    });
  }

  deadLetter(delivery: ModelDelivery): Verdict {
    return this.#settle(delivery, (message) => {
      this.#remove(message);
      const { serial, id, checkpoint } = message;
      this.dead.push({ serial, id, checkpoint });
    });
  }

  extend(delivery: ModelDelivery, ms: number): Verdict {
    return this.#keep(delivery, (message) => {
      message.visibleAt = Math.max(message.visibleAt, this.now + ms);
    });
  }

  checkpoint(delivery: ModelDelivery, progress: number): Verdict {
    return this.#keep(delivery, (message) => {
      message.checkpoint = progress;
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

  #keep(delivery: ModelDelivery, act: (message: ModelMessage) => void): Verdict {
    const { message, final } = delivery;
    if (final) return "MessageFinalizedError";
    const there = this.messages.includes(message);
    if (!there || message.holder !== delivery || message.visibleAt <= this.now) {
      return "ReceiptHandleExpiredError";
    }
    act(message);
    return "done";
  }

  #settle(delivery: ModelDelivery, act: (message: ModelMessage) => void): Verdict {
    const verdict = this.#keep(delivery, (message) => {
      act(message);
      message.holder = undefined;
    });
    if (verdict === "done") delivery.final = true;
    return verdict;
  }
}
