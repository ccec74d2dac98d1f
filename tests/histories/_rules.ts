// What engines keep to, and what is uncertain about deliveries and messages after answers were lost.

import type { Settling } from "../mailbox/_commands.ts";
import type { ModelDelivery, ModelMessage } from "../mailbox/_model.ts";
import type { Call } from "./_calls.ts";

/** What an engine keeps to. A rule that it cannot keep is false, and named in its site with the reason. */
export interface Rules {
  /** Messages arrive by priority, oldest first. Otherwise any visible ones arrive. */
  readonly ordered: boolean;
  /** Each call happens as a whole or not at all. Otherwise a part of it may have happened. */
  readonly atomic: boolean;
  /**
   * Which repeated settlements return what the first one did: all, or acknowledgements and dead letters. A
   * delivery whose other settlement was lost may then be refused from then on.
   */
  readonly remembers: "all" | "removals" | "none";
  /** The messages of a lost receive are available again, without an attempt, at the next receive. */
  readonly undoesReceives: boolean;
  /** A stored id is refused. */
  readonly dedup: boolean;
  /** A release costs no attempt. */
  readonly restoresAttempts: boolean;
}

/** The settlements that end a delivery. The result of one says nothing about another. */
export type Settlement = "acknowledge" | "nack" | "release" | "deadLetter";

/** A delivery, with what is uncertain about it. */
export interface Tracked extends ModelDelivery {
  /** The settlement whose answer was lost, or that several different ones were. */
  unanswered?: Settlement | "several";
  /** True in a world in which the server carried out the unanswered settlement. */
  applied?: boolean;
  /** True when only the first half of a dead-lettering happened. */
  letterStored?: boolean;
}

/** A message that lost receives may have delivered, so many times at the most. */
export interface Uncertain extends ModelMessage {
  maybe?: number;
}

/** Longer than any test. */
export const LONG_MS = 600_000;

/** The kind of settlement of a call; none for a call that does not end the delivery. */
export const SETTLEMENTS: Readonly<Partial<Record<Settling, Settlement>>> = {
  acknowledge: "acknowledge",
  nack: "nack",
  nackFree: "nack",
  release: "release",
  deadLetter: "deadLetter",
};

/** Returns the kind of settlement of a call, and the deliveries that it settles. */
export function settlementsOf(call: Call): [Settlement | undefined, readonly number[]] {
  if (call.do === "acknowledgeMany") return ["acknowledge", call.deliveries];
  if (call.do === "releaseMany") return ["release", call.deliveries];
  return "delivery" in call ? [SETTLEMENTS[call.do], [call.delivery]] : [undefined, []];
}
