// Where a history runs: one queue of an engine, used by several processes whose connections a test can break.

import type { EngineMailbox } from "../../src/mailbox/engine_mailbox.ts";
import type { FaultyEngine } from "../../src/testing/faulty_engine.ts";
import type { BreakingProxy } from "../engines/_proxy.ts";
import type { Fault, Look } from "./_calls.ts";
import type { Rules } from "./_rules.ts";

/** A mailbox on a connection of its own. */
export type Box = EngineMailbox<number, unknown, string>;

/** Disturbs the next call of one process. */
export interface Breaker {
  /** Disturbs the `nth` command from now on. */
  arm(fault: Fault, nth: number): void;
  /** Ends the disturbance. Returns whether a command met it. */
  disarm(): boolean;
}

/** A process that uses the queue. */
export interface Client {
  readonly mailbox: Box;
  readonly breaker: Breaker;
}

/** A queue, new for each history. Its disposal deletes it. */
export interface OpenQueue extends AsyncDisposable {
  readonly clients: readonly Client[];
}

/** The rules that an engine cannot keep, with the reasons. Tests report them as skipped. */
export type Skips = Readonly<Record<string, string>>;

/** An engine under test. */
export interface Site extends AsyncDisposable {
  readonly engine: string;
  readonly rules: Rules;
  /** True when a call whose answer was lost is repeated before any other call. */
  readonly repeatsAtOnce?: boolean;
  /** True when the runtime may repeat a request whose connection broke. */
  readonly repeatsRequests?: boolean;
  /** True when checkpoints need a store of the program. */
  readonly savesNothing?: boolean;
  /** How an engine shows its messages. @default by `peek`, with all fields */
  look?(mailbox: Box): Promise<Look>;
  open(queue: string): Promise<OpenQueue>;
}

/** The rules of an engine that keeps all of them. */
export const ALL_RULES: Rules = {
  ordered: true,
  atomic: true,
  remembers: "all",
  undoesReceives: true,
  dedup: true,
  restoresAttempts: true,
};

/** Shows all of a queue that the engine can tell. */
export async function lookAt(mailbox: Box): Promise<Look> {
  const messages = await mailbox.peek(1_000);
  const letters = await mailbox.deadLetters.peek!(1_000);
  const { exactStats } = mailbox.capabilities;
  const { waiting, delayed, inFlight, dead, paused } = await mailbox.stats();
  return {
    count: await mailbox.approximateCount(),
    messages: messages.map(({ body, id, deliveryCount, checkpoint = null, state }) => {
      return { serial: body, id, deliveryCount, checkpoint, state };
    }),
    letters: letters.map(({ body }) => body.body as number),
    letterCount: letters.length,
    states: exactStats ? { waiting, delayed, inFlight, dead, paused: paused ?? false } : undefined,
  };
}

/** Cuts the connections that go through a proxy. */
export class ProxyBreaker implements Breaker {
  readonly #proxy: BreakingProxy;
  #met = false;

  constructor(proxy: BreakingProxy) {
    this.#proxy = proxy;
  }

  arm(fault: Fault, nth: number): void {
    this.#met = fault === "between";
    if (fault === "none") return;
    if (fault === "between") return this.#proxy.cutAll();
    let commands = 0;
    let asked: number | undefined;
    this.#proxy.onCommand = (_, connection) => {
      if (++commands !== nth) return "pass";
      this.#met = true;
      if (fault === "before") return "cut";
      asked = connection;
      return "pass";
    };
    this.#proxy.onReply = (_, connection) => {
      if (connection !== asked) return "pass";
      asked = undefined;
      return fault === "middle" ? "half" : "cut";
    };
  }

  disarm(): boolean {
    this.#proxy.onCommand = () => "pass";
    this.#proxy.onReply = () => "pass";
    return this.#met;
  }
}

/** Breaks the calls of an engine without a connection: they are refused, or their answers are lost. */
export class WrapperBreaker implements Breaker {
  readonly #engine: FaultyEngine<string>;

  constructor(engine: FaultyEngine<string>) {
    this.#engine = engine;
  }

  arm(fault: Fault): void {
    if (fault === "none" || fault === "between") return;
    this.#engine.loseConnection({ calls: 1, answersOnly: fault !== "before" });
  }

  disarm(): boolean {
    this.#engine.restoreConnection();
    return false;
  }
}
