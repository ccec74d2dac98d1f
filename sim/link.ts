// The network between one process and the server of the engine.

import { MailboxConnectionError } from "../src/mailbox/errors.ts";
import type { Random } from "../src/random.ts";
import type { Handed } from "./handovers.ts";
import type { Host } from "./host.ts";
import type { Scheduler } from "./scheduler.ts";
import type { Server } from "./server.ts";

/** How the network behaves without a fault. */
export interface NetworkOptions {
  /** The longest time of a call in one direction. */
  readonly latencyMs: number;
}

/** What becomes of calls that a fault hits. */
export type LossKind = "request" | "answer" | "late" | "silent";

/** How long it takes until a cut connection is open again, at the most. */
const RECONNECT_MS = 400;

/**
 * A process that is cut off again within this time may look as if it had been away throughout: looks at owners may be
 * as far apart as the grace of 2 s, and their answers may take half a second.
 */
const FLAPPING_MS = 2_500;

/** A call that was given up may still reach the server for so long. */
export const LATE_MS = 1_500;

/** How long calls of a process may fail after a fault: the longest timeout of a call, and a reconnect. */
const AFTERMATH_MS = 3_000;

/**
 * Carries the calls of one process to the server and the answers back, each in the order of sending. A fault
 * loses requests, or answers of calls that the server has carried out, or delivers a request late, after the
 * process has given it up; or it leaves both sides waiting.
 */
export class Link {
  readonly host: Host;
  readonly #server: Server;
  readonly #scheduler: Scheduler;
  readonly #random: Random;
  readonly #options: NetworkOptions;
  /** Notifications may have been lost while the connection was cut. */
  readonly #onReconnect = new Set<() => void>();
  readonly #wakeListeners = new Map<string, Set<() => void>>();
  readonly #cancelListeners = new Map<string, Set<(id: string) => void>>();
  readonly #handoverListeners = new Map<string, Set<(handed: Handed) => void>>();
  #arrivesAfter = 0;
  #answersAfter = 0;
  /** Notifications have a connection of their own: one may arrive before an answer that was sent earlier. */
  #notifiesAfter = 0;
  #connected = true;
  #absentSince = -Infinity;
  #absentUntil = -Infinity;
  #silentUntil = 0;
  #slowUntil = 0;
  #losses: LossKind[] = [];
  /** What becomes of the next receives: "silent" or undefined in turn. */
  readonly #receiveLosses: (LossKind | undefined)[] = [];
  #lastCall = 0;
  #disturbedUntil = -1;

  constructor(
    host: Host,
    server: Server,
    scheduler: Scheduler,
    random: Random,
    options: NetworkOptions,
  ) {
    this.host = host;
    this.#server = server;
    this.#scheduler = scheduler;
    this.#random = random;
    this.#options = options;
    server.join(this);
  }

  /** Whether the server sees the process: not after its end, and not while the connection is cut. */
  get connected(): boolean {
    return this.#connected && !this.host.dead;
  }

  /**
   * Since when the server does not see the process. Owners are looked for once a second, so that absences in
   * quick succession are one.
   */
  get absentSince(): number {
    const { diedAt } = this.host;
    const isOne = diedAt - this.#absentUntil < FLAPPING_MS || !this.#connected;
    return isOne ? this.#absentSince : diedAt;
  }

  /** True if no fault has hit the process or its calls since `time`. */
  undisturbedSince(time: number): boolean {
    return this.#disturbedUntil < time && !this.host.frozen && !this.host.dead;
  }

  /** Marks the process as hit by a fault for `ms` from now on, and as long as its calls may suffer from it. */
  disturb(ms: number): void {
    const until = this.#scheduler.now + ms + AFTERMATH_MS;
    this.#disturbedUntil = Math.max(this.#disturbedUntil, until);
  }

  /** Returns an id that no other call has. */
  nextCallId(): string {
    return `${this.host.name}#${++this.#lastCall}`;
  }

  /** Calls the server. Rejects when the connection breaks; never settles when both sides only wait. */
  call<T>(what: string, act: () => T | Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.host.dead) return;
      const loss = this.#lossOf(what);
      const fail = (error: unknown) => void this.host.later(this.#latency(), () => reject(error));
      const broken = () => fail(new MailboxConnectionError("The connection was cut"));
      if (loss !== undefined) this.disturb(0);
      if (loss === "request") {
        this.#reconnect();
        return broken();
      }
      if (loss === "silent" && this.#random.number() < 0.5) return;
      const at = Math.max(this.#arrivesAfter, this.#scheduler.now + this.#latency());
      if (loss === "late") broken();
      else this.#arrivesAfter = at;
      const lateMs = loss === "late" ? this.#random.number() * LATE_MS : 0;
      this.#scheduler.after(at - this.#scheduler.now + lateMs, () => {
        this.#server.handle(() => {
          let answer: T | Promise<T>;
          try {
            answer = act();
          } catch (error) {
            return fail(error);
          }
          if (loss === "late" || loss === "silent" || this.#scheduler.now < this.#silentUntil) {
            return;
          }
          if (loss === "answer") {
            this.#reconnect();
            return broken();
          }
          const latency = this.#scheduler.now + this.#latency();
          const answeredAt = this.#answersAfter = Math.max(this.#answersAfter, latency);
          this.host.later(answeredAt - this.#scheduler.now, () => resolve(answer));
        }, broken);
      });
    });
  }

  /** Calls `listener` when messages of the queue may have become visible. */
  onWake(queue: string, listener: () => void): () => void {
    return listen(this.#wakeListeners, queue, listener);
  }

  /** Calls `listener` with the id of each message of the queue that was cancelled in flight. */
  onCancel(queue: string, listener: (id: string) => void): () => void {
    return listen(this.#cancelListeners, queue, listener);
  }

  /** Calls `listener` with the messages of the queue that the server hands over. */
  onHandover(queue: string, listener: (handed: Handed) => void): () => void {
    return listen(this.#handoverListeners, queue, listener);
  }

  /** Calls `listener` when the connection is open again. */
  onReconnect(listener: () => void): () => void {
    this.#onReconnect.add(listener);
    return () => void this.#onReconnect.delete(listener);
  }

  /** A notification of the server: messages of the queue may have become visible. */
  wake(queue: string): void {
    const listeners = this.#wakeListeners.get(queue);
    if (listeners === undefined || listeners.size === 0) return;
    this.#notify(() => listeners.forEach((listener) => listener()));
  }

  /** A notification of the server: a message of the queue was cancelled in flight. */
  cancelled(queue: string, id: string): void {
    this.#notify(() => this.#cancelListeners.get(queue)?.forEach((listener) => listener(id)));
  }

  /** A notification of the server, with a message of the queue. */
  handOver(queue: string, handed: Handed): void {
    this.#notify(() => this.#handoverListeners.get(queue)?.forEach((listener) => listener(handed)));
  }

  /** Hits the next calls. */
  lose(kinds: readonly LossKind[]): void {
    this.#losses.push(...kinds);
    this.disturb(0);
  }

  /**
   * Leaves `count` receives without an answer. A message may be handed over to one that waits, so every second receive
   * is hit: the one after a failure is a probe, which does not wait.
   */
  loseReceives(count: number): void {
    for (let i = 0; i < count; i++) this.#receiveLosses.push("silent", undefined);
    this.disturb(0);
  }

  /** Cuts the connection for `ms`: calls fail at once, and the server sees that the process is gone. */
  cut(ms: number): void {
    if (!this.#connected || this.host.dead) return;
    this.disturb(ms);
    this.#connected = false;
    const { now } = this.#scheduler;
    if (now - this.#absentUntil >= FLAPPING_MS) this.#absentSince = now;
    this.#scheduler.after(ms, () => {
      this.#connected = true;
      this.#absentUntil = this.#scheduler.now;
      this.host.later(this.#latency(), () => this.#onReconnect.forEach((listener) => listener()));
    });
  }

  /** Lets both sides wait for `ms`: nothing arrives, and neither side sees why. */
  silence(ms: number): void {
    this.disturb(ms);
    this.#silentUntil = Math.max(this.#silentUntil, this.#scheduler.now + ms);
  }

  /** Makes the network slow for `ms`. */
  slow(ms: number): void {
    this.disturb(ms);
    this.#slowUntil = Math.max(this.#slowUntil, this.#scheduler.now + ms);
  }

  #reconnect(): void {
    this.cut(this.#random.number() * RECONNECT_MS);
  }

  #lossOf(what: string): LossKind | undefined {
    if (!this.#connected) return "request";
    if (this.#scheduler.now < this.#silentUntil) return "silent";
    return (what === "receive" ? this.#receiveLosses.shift() : undefined) ?? this.#losses.shift();
  }

  #notify(act: () => void): void {
    if (!this.connected || this.#scheduler.now < this.#silentUntil) return;
    const latency = this.#scheduler.now + this.#latency();
    const at = this.#notifiesAfter = Math.max(this.#notifiesAfter, latency);
    this.host.later(at - this.#scheduler.now, act);
  }

  #latency(): number {
    const ms = this.#random.number() * this.#options.latencyMs;
    return this.#scheduler.now < this.#slowUntil ? ms * 50 : ms;
  }
}

function listen<L>(all: Map<string, Set<L>>, queue: string, listener: L): () => void {
  const listeners = all.get(queue) ?? new Set<L>();
  all.set(queue, listeners.add(listener));
  return () => void listeners.delete(listener);
}
