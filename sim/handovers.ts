// Handovers of messages to waiting receives: the part of the server, and that of a process.

import { untilAnswered } from "../src/_promises.ts";
import type { Delivery, Handover } from "../src/mailbox/engine.ts";
import { EPOCH } from "./host.ts";
import type { Link } from "./link.ts";
import type { Held } from "./delivery.ts";
import type { Server } from "./server.ts";

/** How long a message that was handed over is leased until the process confirms it. */
export const CONFIRM_MS = 2_000;

/** A receive that waits. */
export interface Wait {
  readonly link: Link;
  readonly queue: string;
  readonly receipt: string;
  readonly visibilityMs: number;
}

/** A message on its way to a receive that waits. */
export interface Handed {
  readonly receipt: string;
  readonly delivery: Delivery<string>;
  /** When the server handed it over, in milliseconds. */
  readonly at: number;
}

/** The waiting receives, and the messages that were handed to them and are not confirmed yet. */
export class Waits {
  readonly #server: Server;
  readonly #waits = new Map<string, Wait>();
  readonly #unconfirmed = new Map<string, Held>();
  readonly #ended = new Set<string>();

  constructor(server: Server) {
    this.#server = server;
  }

  /** Adds a wait, unless its process has ended it: a receive may arrive late. */
  add(wait: Wait): void {
    if (!this.#ended.has(wait.receipt)) this.#waits.set(wait.receipt, wait);
  }

  /** Forgets all waits, as a restart does. */
  clear(): void {
    this.#waits.clear();
  }

  /** Ends waits. A message that is on its way to one is visible again. */
  end(receipts: readonly string[]): void {
    for (const receipt of receipts) {
      this.#waits.delete(receipt);
      this.#ended.add(receipt);
    }
    for (const held of this.#unconfirmed.values()) {
      if (receipts.includes(held.callId)) this.#takeBack(held);
    }
  }

  /** Records that a process has extended the lease of a message that was handed over to it. */
  confirmed(handle: string): void {
    this.#unconfirmed.delete(handle);
  }

  /** Hands the next message of a queue over to a receive. Returns its id; undefined when no receive waits. */
  handOver(queue: string): string | undefined {
    for (const wait of this.#waits.values()) {
      const { link, receipt, visibilityMs } = wait;
      if (wait.queue !== queue || !link.connected) continue;
      const [delivery] = this.#server.engine(queue).receive(1, CONFIRM_MS).deliveries;
      if (delivery === undefined) return undefined;
      this.#waits.delete(receipt);
      const { copy, held } = this.#server.hold(link, queue, delivery, {
        callId: receipt,
        visibilityMs,
        leasedMs: CONFIRM_MS,
      });
      this.#unconfirmed.set(held.handle, held);
      const at = this.#server.scheduler.now;
      // The lease must not expire: that would count as an attempt.
      this.#server.scheduler.after(CONFIRM_MS - 1, () => {
        if (!this.#unconfirmed.has(held.handle)) return;
        this.#server.ledger.leases.unconfirmed(held.handle);
        this.#takeBack(held);
      });
      link.handOver(queue, { receipt, delivery: copy, at });
      return delivery.id;
    }
    return undefined;
  }

  #takeBack({ handle }: Held): void {
    this.#unconfirmed.delete(handle);
    this.#server.takeBack(handle);
  }
}

/** The waits that a receive ends, and the one that it begins. */
export interface WaitTerms {
  readonly ends: readonly string[];
  readonly receipt?: string;
}

/** The wait of the last receive. */
interface Registration {
  readonly receipt: string;
  readonly visibilityMs: number;
  readonly registeredAt: number;
  /** When the server registered it; undefined until its answer arrives. */
  serverAt?: number;
}

type Listener = (handover: Handover<string>) => void;

/** The parts of an engine that its inbox needs. */
export interface InboxParts {
  readonly queue: string;
  readonly link: Link;
  readonly server: Server;
  readonly call: <T>(what: string, act: () => T) => Promise<T>;
}

/** The waits of one engine of a process, and the messages that are handed to them. */
export class HandoverInbox {
  readonly #parts: InboxParts;
  #listener: Listener | undefined;
  #registration: Registration | undefined;
  /** Waits that the server may not have ended yet: calls may fail. */
  readonly #ending = new Set<string>();
  /** The message whose lease may have ended on its way, until the server has answered. */
  #confirming: Promise<unknown> | undefined;
  readonly #closing = new AbortController();

  constructor(parts: InboxParts) {
    this.#parts = parts;
  }

  /** Calls `listener` with handovers until the returned function is called. */
  listen(listener: Listener): () => Promise<void> {
    const { link, queue, server } = this.#parts;
    this.#listener = listener;
    const unlisten = link.onHandover(queue, (handed) => this.#onHandover(handed));
    return async () => {
      if (this.#listener === listener) this.#listener = undefined;
      unlisten();
      const ends = this.#endWait();
      const ended = ends.length > 0 &&
        this.#repeat("end a wait", () => server.waits.end(ends));
      await Promise.all([ended, this.#confirming]);
    };
  }

  /** Begins a receive, which ends the previous wait, and begins another wait if it `waits`. */
  begin(visibilityMs: number, waits: boolean): WaitTerms {
    const ends = this.#endWait();
    if (!waits || this.#listener === undefined) return { ends };
    const { link } = this.#parts;
    const receipt = link.nextCallId();
    this.#registration = { receipt, visibilityMs, registeredAt: link.host.monotonic() };
    return { ends, receipt };
  }

  /** Records that the server answered the receive, at the time `serverAt`. */
  answered({ ends, receipt }: WaitTerms, serverAt: number): void {
    for (const ended of ends) this.#ending.delete(ended);
    if (receipt !== undefined && this.#registration?.receipt === receipt) {
      this.#registration.serverAt = serverAt;
    }
  }

  /** Stops repeating calls. */
  close(): void {
    this.#closing.abort();
  }

  #endWait(): readonly string[] {
    if (this.#registration !== undefined) this.#ending.add(this.#registration.receipt);
    this.#registration = undefined;
    return [...this.#ending];
  }

  #onHandover({ receipt, delivery, at }: Handed): void {
    const registration = this.#registration;
    if (registration?.receipt !== receipt) return; // it was taken back, or soon is
    this.#registration = undefined;
    const { link, server } = this.#parts;
    const { visibilityMs, registeredAt, serverAt = NaN } = registration;
    const handles = [delivery.receiptHandle];
    const deliver = () => this.#deliver(delivery, at, visibilityMs);
    const isTimely = link.host.monotonic() - registeredAt - (at - serverAt) < CONFIRM_MS / 2;
    const confirming = this.#repeat("confirm", () => server.extend(handles, visibilityMs));
    if (isTimely) deliver();
    else this.#confirming = confirming.then((done) => done?.[0] === true && deliver());
  }

  #deliver(delivery: Delivery<string>, at: number, visibilityMs: number): void {
    const { server } = this.#parts;
    const { receiptHandle } = delivery;
    server.ledger.leases.arrived(receiptHandle);
    if (this.#listener !== undefined) {
      this.#listener({ deliveries: [delivery], nextDueMs: 0, now: EPOCH + at, visibilityMs });
    } else void this.#repeat("release", () => server.takeBack(receiptHandle));
  }

  /** The server may have carried out a call that failed. */
  #repeat<T>(what: string, act: () => T): Promise<T | undefined> {
    const { call, link: { host } } = this.#parts;
    return untilAnswered(() => call(what, act), host, this.#closing.signal, () => {});
  }
}
