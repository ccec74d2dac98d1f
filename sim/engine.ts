// The simulated engine as one process uses it: the interface of an engine over the simulated network.

import { BoundedCalls, LostCalls } from "../src/engines/_kit/calls.ts";
import { OwnerWatch } from "../src/engines/_kit/owners.ts";
import { wakeUps } from "../src/engines/_kit/wake_ups.ts";
import type { Log } from "../src/log.ts";
import {
  type Capabilities,
  type Delivery,
  type Engine,
  type EngineStats,
  type Entry,
  FULL_CAPABILITIES,
  type Handover,
  type RateLimit,
  type Received,
  type StoredMessage,
} from "../src/mailbox/engine.ts";
import type { Random } from "../src/random.ts";
import { HandoverInbox } from "./handovers.ts";
import { LATE_MS, type Link } from "./link.ts";
import type { Held, NackTerms, SettlementKind } from "./delivery.ts";
import type { Server } from "./server.ts";

/** How long a call waits for its answer. */
const CALL_TIMEOUT_MS = 2_000;

/** How often a waiting receive polls without a notification. */
const POLL_MS = 5_000;

/** The pause before a poll varies by a quarter. */
export const LONGEST_POLL_MS: number = POLL_MS * 1.25;

/** How long an owner must be absent: longer than a reconnect. */
export const OWNER_GRACE_MS = 2_000;

/** What the engines of one process share. */
export interface EngineParts {
  readonly link: Link;
  readonly server: Server;
  readonly random: Random;
  readonly log: Log;
}

/** An engine of one queue. It uses the same kit as the engines of the package. */
export class SimulatedEngine implements Engine<string> {
  readonly capabilities: Capabilities = { ...FULL_CAPABILITIES, transactions: false };
  readonly label = "simulated";
  readonly #queue: string;
  readonly #parts: EngineParts;
  readonly #calls: BoundedCalls;
  readonly #lost: LostCalls<string>;
  readonly #owners: OwnerWatch<string>;
  readonly #inbox: HandoverInbox;
  #stopRegistering: (() => void) | undefined;
  /** The receipt handles of settlements whose answers were lost. */
  readonly #unanswered = new Set<string>();

  constructor(queue: string, parts: EngineParts) {
    const { link: { host: clock }, log, link, server } = parts;
    this.#queue = queue;
    this.#parts = parts;
    this.#calls = new BoundedCalls("The simulated server", clock, CALL_TIMEOUT_MS);
    this.#lost = new LostCalls(clock, LATE_MS + CALL_TIMEOUT_MS, (ids) => {
      return this.#call("undo", () => server.undo(queue, ids));
    });
    this.#owners = new OwnerWatch({
      absent: () => this.#call("look for owners", () => server.absentOwners(link, queue)),
      expire: (owner) => this.#call("expire leases", () => server.expireOwner(queue, owner)),
    }, { queue, clock, log, graceMs: OWNER_GRACE_MS });
    this.#inbox = new HandoverInbox({
      ...{ queue, link, server },
      call: (what, act) => this.#call(what, act),
    });
  }

  send(entries: readonly Entry<string>[]): Promise<readonly boolean[]> {
    const { server, link } = this.#parts;
    return this.#call("send", () => server.send(link, this.#queue, entries));
  }

  async receive(max: number, visibilityMs: number, waits = false): Promise<Received<string>> {
    const { server, link } = this.#parts;
    this.#stopRegistering ??= link.onReconnect(() => {
      this.#call("register", () => server.register(link, this.#queue)).catch(() => {
        // The next receive registers.
      });
    });
    const callId = link.nextCallId();
    await this.#lost.look();
    const wait = this.#inbox.begin(visibilityMs, waits && server.handsOver);
    const options = { max, visibilityMs, callId, ...wait };
    try {
      const answer = await this.#call("receive", () => server.receive(link, this.#queue, options));
      for (const it of answer.deliveries) server.ledger.leases.arrived(it.receiptHandle);
      this.#inbox.answered(wait, answer.at);
      if (answer.inFlight) this.#owners.look();
      const lookMs = answer.inFlight ? this.#owners.nextLookMs : Infinity;
      return { ...answer, nextDueMs: Math.min(answer.nextDueMs, lookMs, this.#lost.nextLookMs) };
    } catch (error) {
      this.#lost.add(callId);
      throw error;
    }
  }

  acknowledge(deliveries: readonly Delivery<string>[]): Promise<readonly boolean[]> {
    return this.#settle("acknowledge", deliveries, ({ queue, delivery }) => {
      return this.#parts.server.engine(queue).acknowledge([delivery])[0]!;
    });
  }

  nack(
    deliveries: readonly Delivery<string>[],
    delayMs: number,
    countsAttempt: boolean,
  ): Promise<readonly boolean[]> {
    return this.#settle("nack", deliveries, ({ queue, delivery }) => {
      return this.#parts.server.engine(queue).nack([delivery], delayMs, countsAttempt)[0]!;
    }, { countsAttempt, delayMs });
  }

  release(deliveries: readonly Delivery<string>[]): Promise<readonly boolean[]> {
    return this.#settle("release", deliveries, ({ queue, delivery }) => {
      return this.#parts.server.engine(queue).release([delivery])[0]!;
    });
  }

  async deadLetter(delivery: Delivery<string>, letter: Entry<string>): Promise<boolean> {
    const [moved = false] = await this.#settle("deadLetter", [delivery], (held) => {
      const { server } = this.#parts;
      const done = server.engine(held.queue).deadLetter(held.delivery, letter);
      if (done) server.ledger.deadLetter(held, letter);
      return done;
    });
    return moved;
  }

  async extend(deliveries: readonly Delivery<string>[], ms: number): Promise<readonly boolean[]> {
    const { server } = this.#parts;
    const { leases } = server.ledger;
    const handles = deliveries.map(({ receiptHandle }) => receiptHandle);
    leases.calls(handles);
    try {
      return await this.#call("extend", () => server.extend(handles, ms));
    } catch (error) {
      leases.extensionFailed(handles);
      throw error;
    }
  }

  checkpoint({ receiptHandle }: Delivery<string>, checkpoint: string): Promise<boolean> {
    return this.#call("checkpoint", () => this.#parts.server.checkpoint(receiptHandle, checkpoint));
  }

  peek(max: number, skip?: number): Promise<readonly StoredMessage<string>[]> {
    return this.#ask("peek", (engine) => engine.peek(max, skip));
  }

  count(): Promise<number> {
    return this.#ask("count", (engine) => engine.count());
  }

  stats(): Promise<EngineStats> {
    return this.#ask("count", (engine) => engine.stats());
  }

  purge(): Promise<number> {
    throw new TypeError("The simulation purges nothing");
  }

  find(id: string): Promise<StoredMessage<string> | undefined> {
    return this.#ask("find", (engine) => engine.find(id));
  }

  cancel(id: string): Promise<boolean> {
    return this.#call("cancel", () => this.#parts.server.cancel(this.#queue, id));
  }

  deliverNow(id: string): Promise<boolean> {
    return this.#ask("deliver", (engine) => engine.deliverNow(id));
  }

  pause(forMs: number): Promise<void> {
    return this.#call("pause", () => this.#parts.server.pause(this.#queue, forMs));
  }

  rateLimit(limit: RateLimit | undefined): Promise<void> {
    return this.#call("limit", () => this.#parts.server.rateLimit(this.#queue, limit));
  }

  onWake(listener: (handover?: Handover<string>) => void): () => Promise<void> {
    const { link, random } = this.#parts;
    const wake = () => listener();
    const listen = () => {
      const unlisten = [link.onWake(this.#queue, wake), link.onReconnect(wake)];
      return () => unlisten.forEach((stop) => stop());
    };
    const stopWaking = wakeUps(listen, link.host, POLL_MS, wake, random);
    const stopHandovers = this.#inbox.listen(listener);
    return () => {
      stopWaking();
      return stopHandovers();
    };
  }

  onCancel(listener: (id: string) => void): () => void {
    return this.#parts.link.onCancel(this.#queue, listener);
  }

  queue(name: string): SimulatedEngine {
    return new SimulatedEngine(name, this.#parts);
  }

  deadLetters(): SimulatedEngine {
    return this.queue(`${this.#queue}.dead`);
  }

  async close(): Promise<void> {
    const { server, link } = this.#parts;
    this.#stopRegistering?.();
    this.#inbox.close();
    await this.#owners.stop();
    await this.#calls.settled();
    this.#lost.stop();
    await this.#lost.look(true).catch(() => {});
    await this.#call("leave", () => server.unregister(link, this.#queue)).catch(() => {
      // The server sees that the process is gone.
    });
  }

  #ask<T>(what: string, act: (engine: ReturnType<Server["engine"]>) => T): Promise<T> {
    return this.#call(what, () => act(this.#parts.server.engine(this.#queue)));
  }

  #call<T>(what: string, act: () => T): Promise<T> {
    return this.#calls.run(what, () => this.#parts.link.call(what, act));
  }

  /** A settlement that is repeated because its answer was lost has the result of the first one. */
  async #settle(
    kind: SettlementKind,
    deliveries: readonly Delivery<string>[],
    act: (held: Held) => boolean,
    terms?: NackTerms,
  ): Promise<readonly boolean[]> {
    const { server, link } = this.#parts;
    const { leases } = server.ledger;
    const handles = deliveries.map(({ receiptHandle }) => receiptHandle);
    leases.calls(handles);
    const repeats = handles.map((handle) => this.#unanswered.has(handle));
    try {
      return await this.#call(
        kind,
        () => server.settle(link, kind, handles, repeats, act, terms),
      );
    } catch (error) {
      for (const handle of handles) this.#unanswered.add(handle);
      if (kind === "acknowledge") leases.acknowledgementFailed(handles);
      else leases.settlementFailed(handles);
      throw error;
    }
  }
}
