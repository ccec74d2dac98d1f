// A simulated server: the engine in memory behind a client that can lose its connection. The client does what
// the engines on servers do after a lost answer, so that the rules about it can be tested within milliseconds.

import type { Clock } from "../../src/clock.ts";
import type { Delivery, Entry, Maybe, Received } from "../../src/mailbox/engine.ts";
import { MemoryEngine } from "../../src/mailbox/memory_engine.ts";
import { FaultyEngine } from "../../src/testing/faulty_engine.ts";

type Deliveries = readonly Delivery<string>[];
type Call = "acknowledge" | "nack" | "release" | "deadLetter" | "extend";

/** The queue of the simulated server. It keeps the messages of the last receive of each process. */
export class SimulatedServer extends MemoryEngine<string> {
  /** The deliveries of each process that it may never have got. */
  readonly unconfirmed: Map<number, Deliveries> = new Map();

  constructor(name: string, clock: Clock) {
    super(name, Infinity, clock);
  }
}

/** What one process sees of a server: it notes what it delivers. */
class View extends FaultyEngine<string> {
  readonly #server: SimulatedServer;
  readonly #client: number;

  constructor(server: SimulatedServer, client: number) {
    super(server);
    this.#server = server;
    this.#client = client;
  }

  override receive(max: number, visibilityMs: number): Received<string> {
    const received = this.#server.receive(max, visibilityMs);
    const before = this.#server.unconfirmed.get(this.#client) ?? [];
    this.#server.unconfirmed.set(this.#client, [...before, ...received.deliveries]);
    return received;
  }
}

/** What a client does wrong. */
export type ClientFault =
  | "forgets lost settlements"
  | "reports other calls as done after a lost settlement"
  | "leaves the messages of a lost receive hidden"
  | "counts the attempt of a lost receive";

/** A client of a simulated server. */
export class SimulatedClient extends FaultyEngine<string> {
  /** Loses the connection to the server. */
  readonly link: FaultyEngine<string>;
  readonly #server: SimulatedServer;
  readonly #client: number;
  readonly #fault: ClientFault | undefined;
  /** The last settlement of each delivery whose answer was lost. */
  readonly #lost = new Map<Delivery<string>, Call>();
  #lostReceive = false;

  constructor(server: SimulatedServer, client: number, fault?: ClientFault) {
    const link = new FaultyEngine(new View(server, client));
    super(link);
    this.#server = server;
    this.link = link;
    this.#client = client;
    this.#fault = fault;
  }

  override async receive(max: number, visibilityMs: number): Promise<Received<string>> {
    if (this.#lostReceive) await this.#undoReceive();
    try {
      const received = await this.link.receive(max, visibilityMs);
      this.#server.unconfirmed.delete(this.#client);
      return received;
    } catch (error) {
      this.#lostReceive = true;
      throw error;
    }
  }

  override acknowledge(deliveries: Deliveries): Maybe<readonly boolean[]> {
    return this.#settle("acknowledge", deliveries, () => this.link.acknowledge(deliveries));
  }

  override nack(
    deliveries: Deliveries,
    delayMs: number,
    counts: boolean,
  ): Maybe<readonly boolean[]> {
    return this.#settle("nack", deliveries, () => this.link.nack(deliveries, delayMs, counts));
  }

  override release(deliveries: Deliveries): Maybe<readonly boolean[]> {
    return this.#settle("release", deliveries, () => this.link.release(deliveries));
  }

  override extend(deliveries: Deliveries, ms: number): Maybe<readonly boolean[]> {
    return this.#settle("extend", deliveries, () => this.link.extend(deliveries, ms));
  }

  override async deadLetter(delivery: Delivery<string>, letter: Entry<string>): Promise<boolean> {
    const settle = async () => [await this.link.deadLetter(delivery, letter)];
    return (await this.#settle("deadLetter", [delivery], settle))[0]!;
  }

  /** Returns true for what the server did, now or when the answer was lost. */
  async #settle(
    call: Call,
    deliveries: Deliveries,
    act: () => Maybe<readonly boolean[]>,
  ): Promise<boolean[]> {
    try {
      const results = await act();
      return results.map((done, i) => done || this.#wasDone(call, deliveries[i]!));
    } catch (error) {
      if (call !== "extend") { for (const delivery of deliveries) this.#lost.set(delivery, call); }
      throw error;
    }
  }

  #wasDone(call: Call, delivery: Delivery<string>): boolean {
    const lost = this.#lost.get(delivery);
    if (lost === undefined || this.#fault === "forgets lost settlements") return false;
    if (this.#fault === "reports other calls as done after a lost settlement") return true;
    return lost === call;
  }

  async #undoReceive(): Promise<void> {
    const hidden = this.#server.unconfirmed.get(this.#client) ?? [];
    const isCounted = this.#fault === "counts the attempt of a lost receive";
    if (this.#fault !== "leaves the messages of a lost receive hidden") {
      await this.link.nack(hidden, 0, isCounted);
    }
    this.#lostReceive = false;
    this.#server.unconfirmed.delete(this.#client);
  }
}
