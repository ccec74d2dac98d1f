/** The simplest model of a mailbox: one list that every call searches from its start. */

import { FREE_RELEASES, type MessageState } from "../../src/mailbox/engine.ts";

/** The result of settling a delivery. */
export type Result = "done" | "ReceiptHandleExpiredError" | "MessageFinalizedError";

/** A delivery in the model. */
export interface ModelDelivery {
  readonly message: ModelMessage;
  final: boolean;
}

/** What the sender of a message chooses. */
export interface ModelOptions {
  readonly delayMs?: number | undefined;
  readonly dedupMs?: number | undefined;
  readonly key?: string | undefined;
  readonly priority?: number | undefined;
  readonly expiresInMs?: number | undefined;
  readonly onExpired?: "deadLetter" | "drop" | undefined;
}

/** A message in the model. Its body is its serial number. */
export interface ModelMessage {
  readonly serial: number;
  /** Undefined until it is known when the mailbox chose it. */
  id: string | undefined;
  readonly options: ModelOptions;
  /** The order of sends. A redriven message gets a new one. */
  readonly number: number;
  readonly sentAt: number;
  /** When it becomes visible. */
  visibleAt: number;
  /** Later messages of its key come after it, if their number is above this one. */
  joinedBefore: number;
  deliveryCount: number;
  releases: number;
  checkpoint: number | undefined;
  /** The last delivery, until it is settled. */
  holder: ModelDelivery | undefined;
  /** True from its first delivery: then it is the first message of its key until it is gone. */
  wasDelivered: boolean;
}

/** What a dead letter keeps of a message. */
type ModelLetter = Pick<ModelMessage, "serial" | "id" | "options" | "checkpoint">;

/** The counts of the messages by state. */
export interface ModelStats {
  readonly waiting: number;
  readonly delayed: number;
  readonly inFlight: number;
  readonly dead: number;
  readonly paused: boolean;
  readonly oldestWaitingMs: number | undefined;
}

/** The model of a mailbox and its dead letters. */
export class Model {
  now = 0;
  paused = false;
  /** All messages, oldest first. */
  messages: ModelMessage[] = [];
  readonly dead: ModelLetter[] = [];
  readonly acknowledged: Set<number> = new Set();
  readonly purged: Set<number> = new Set();
  readonly cancelled: Set<number> = new Set();
  /** Expired messages whose sender chose to drop them. */
  readonly dropped: Set<number> = new Set();
  /** All messages that were ever stored. */
  readonly confirmed: Set<number> = new Set();
  /** Until when each id is remembered. */
  readonly remembered: Map<string, number> = new Map();
  #lastNumber = 0;

  /** Returns false for a duplicate. */
  send(serial: number, id: string, options: ModelOptions = {}): boolean {
    const { dedupMs } = options;
    if (this.#has(id) || dedupMs !== undefined && this.#isRemembered(id)) return false;
    if (dedupMs !== undefined) this.remembered.set(id, this.now + dedupMs);
    this.confirmed.add(serial);
    this.#store(serial, id, options);
    return true;
  }

  /**
   * Delivers what an engine delivers in one call. Where the contract allows more than one order, which it
   * does for a delayed message in the line of its key, the model takes the one that the engine has `taken`.
   */
  deliver(max: number, visibilityMs: number, taken: readonly number[]): ModelDelivery[] {
    if (this.paused) return [];
    const due = this.messages.filter(({ visibleAt }) => visibleAt <= this.now);
    for (const it of due) it.joinedBefore = Math.min(it.joinedBefore, this.#lastNumber);
    const ready = due.filter(({ options }) => options.key === undefined);
    for (const key of new Set(this.messages.flatMap(({ options }) => options.key ?? []))) {
      const firsts = this.#firstsOf(key).sort(byUrgency);
      const first = firsts.find(({ serial }) => taken.includes(serial)) ?? firsts.at(-1);
      if (first !== undefined && first.visibleAt <= this.now) ready.push(first);
    }
    return ready.sort(byUrgency).slice(0, max).map((message) => {
      message.deliveryCount++;
      message.wasDelivered = true;
      message.visibleAt = this.now + visibilityMs;
      return message.holder = { message, final: false };
    });
  }

  /** Dead-letters or drops a delivered message if it has expired. Returns whether it has. */
  expire({ message }: ModelDelivery): boolean {
    const { expiresInMs, onExpired } = message.options;
    if (expiresInMs === undefined || this.now - message.sentAt < expiresInMs) return false;
    // A lease of no time is over before the message can be removed.
    if (message.visibleAt <= this.now) return true;
    this.#remove(message);
    if (onExpired === "drop") this.dropped.add(message.serial);
    else this.dead.push(message);
    return true;
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
      if (message.releases <= FREE_RELEASES) message.deliveryCount--;
    });
  }

  deadLetter(delivery: ModelDelivery): Result {
    return this.#settle(delivery, (message) => {
      this.#remove(message);
      this.dead.push(message);
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
      message.releases = 0; // releases are free again after an advance
    });
  }

  /** Returns the state that the message had, or undefined when there is none with this id. */
  cancel(id: string): MessageState | undefined {
    const message = this.messages.find((it) => it.id === id);
    if (message === undefined) return undefined;
    this.#remove(message);
    this.cancelled.add(message.serial);
    return this.stateOf(message);
  }

  /** Ends the delay of a message. Returns whether it was delayed. */
  deliverNow(id: string): boolean {
    const message = this.messages.find((it) => it.id === id);
    if (message === undefined || this.stateOf(message) !== "delayed") return false;
    message.visibleAt = this.now;
    message.joinedBefore = Math.min(message.joinedBefore, this.#lastNumber);
    return true;
  }

  deleteLetter(id: string): boolean {
    const [letter] = this.#takeLetters(1, (it) => it.id === id);
    if (letter !== undefined) this.cancelled.add(letter.serial);
    return letter !== undefined;
  }

  redrive(max: number, only: (letter: ModelLetter) => boolean = () => true): number {
    const letters = this.#takeLetters(max, only);
    for (const { serial, id, options, checkpoint } of letters) {
      const { key, priority, expiresInMs, onExpired } = options;
      const kept = { key, priority, expiresInMs, onExpired };
      this.#store(serial, this.#has(id) ? undefined : id, kept, checkpoint);
    }
    return letters.length;
  }

  #takeLetters(max: number, only: (letter: ModelLetter) => boolean): ModelLetter[] {
    const letters = this.dead.filter(only).slice(0, max);
    for (const letter of letters) this.dead.splice(this.dead.indexOf(letter), 1);
    return letters;
  }

  purge(): number {
    const { length } = this.messages;
    for (const { serial } of this.messages) this.purged.add(serial);
    this.messages = [];
    this.remembered.clear();
    return length;
  }

  stateOf({ visibleAt, holder }: ModelMessage): MessageState {
    if (visibleAt <= this.now) return "waiting";
    return holder === undefined ? "delayed" : "inFlight";
  }

  stats(): ModelStats {
    const states = this.messages.map((it) => this.stateOf(it));
    const count = (state: MessageState) => states.filter((it) => it === state).length;
    const oldest = this.messages.find((_, i) => states[i] === "waiting");
    return {
      waiting: count("waiting"),
      delayed: count("delayed"),
      inFlight: count("inFlight"),
      dead: this.dead.length,
      paused: this.paused,
      oldestWaitingMs: oldest && this.now - oldest.sentAt,
    };
  }

  /** Returns a copy of the model, and of `others`, which may refer to its messages. */
  copyWith<T>(others: T): [Model, T] {
    const [fields, copied] = structuredClone([{ ...this }, others]) as [Partial<Model>, T];
    const copy = Object.assign(new Model(), fields);
    copy.#lastNumber = this.#lastNumber;
    return [copy, copied];
  }

  /** Returns the messages of which any may be the first of this key: one, but for delayed messages. */
  #firstsOf(key: string): ModelMessage[] {
    const line = this.messages.filter(({ options, wasDelivered, visibleAt }) => {
      return options.key === key && (wasDelivered || visibleAt <= this.now);
    });
    const first = line.find(({ wasDelivered }) => wasDelivered);
    if (first !== undefined) return [first];
    return line.filter((it) => !line.some((other) => comesBefore(other, it)));
  }

  #has(id: string | undefined): boolean {
    return this.messages.some((it) => it.id === id);
  }

  #isRemembered(id: string): boolean {
    return (this.remembered.get(id) ?? -Infinity) > this.now;
  }

  #store(
    serial: number,
    id: string | undefined,
    options: ModelOptions,
    checkpoint?: number,
  ): void {
    const number = ++this.#lastNumber;
    const { delayMs = 0 } = options;
    this.messages.push({
      serial,
      id,
      options,
      number,
      sentAt: this.now,
      visibleAt: this.now + delayMs,
      joinedBefore: delayMs === 0 ? number : Infinity,
      deliveryCount: 0,
      releases: 0,
      checkpoint,
      holder: undefined,
      wasDelivered: false,
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

/** Returns whether the line of a key has `a` before `b` in any case. */
function comesBefore(a: ModelMessage, b: ModelMessage): boolean {
  return a.joinedBefore < b.number;
}

/** Higher priorities first, then the oldest. */
function byUrgency(a: ModelMessage, b: ModelMessage): number {
  return (b.options.priority ?? 0) - (a.options.priority ?? 0) || a.number - b.number;
}
