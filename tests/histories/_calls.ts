// What a history does: the steps that fast-check makes, the calls that they become on a queue, and answers.

import * as fc from "fast-check";
import { type Command, type Settling, timelessCommand } from "../mailbox/_commands.ts";
import type { ModelOptions, Result } from "../mailbox/_model.ts";

/**
 * How a call is disturbed: the connection is cut `before` a command reaches the server, `after` the server has
 * carried it out and before its answer arrives, in the `middle` of the answer, or `between` two calls.
 */
export type Fault = "none" | "before" | "after" | "middle" | "between";

/** One step of a history. */
export interface Step {
  /** The process that makes the call. */
  readonly client: number;
  readonly command: Command;
  readonly fault: Fault;
  /** Which command of the call is disturbed, from 1: some calls send several to their server. */
  readonly nth: number;
  /** True when a settlement is about the delivery of the last lost call, so that faults meet. */
  readonly insists: boolean;
  /** True when the queue is looked at afterwards. */
  readonly looks: boolean;
  /** True when the same process repeats the call at once if its answer was lost. */
  readonly repeated: boolean;
}

/** A message to send. */
export interface Sent {
  /** Its body, and its name in a history. */
  readonly serial: number;
  /** Undefined when the mailbox chooses the id. */
  readonly id: string | undefined;
  readonly options: ModelOptions;
}

/** A call of a mailbox. `deliveries` are the positions in the list of all deliveries of the history. */
export type Call =
  | { readonly do: "send" | "sendMany"; readonly messages: readonly Sent[] }
  | { readonly do: "receive"; readonly max: number }
  | { readonly do: Settling; readonly delivery: number; readonly ms: number }
  | { readonly do: "acknowledgeMany" | "releaseMany"; readonly deliveries: readonly number[] }
  | { readonly do: "redrive"; readonly max: number }
  | {
    readonly do: "get" | "cancel" | "deliverNow" | "redriveById" | "deleteLetter";
    readonly id: string;
  }
  | { readonly do: "pause" | "resume" | "purge" | "look" };

/** A message as a receive or a look shows it. */
export interface Seen {
  readonly serial: number;
  readonly id: string;
  readonly deliveryCount: number;
  readonly checkpoint?: unknown;
  readonly state?: string | undefined;
}

/** The answer to a call. */
export type Answer =
  | { readonly stored: readonly boolean[]; readonly ids: readonly string[] }
  | { readonly received: readonly Seen[] }
  | { readonly result: Result }
  | { readonly results: readonly boolean[] }
  | { readonly found: Seen | undefined }
  | { readonly value: boolean | number | undefined }
  | Look;

/** All that can be seen of a queue without changing it. An engine omits what it cannot tell. */
export interface Look {
  readonly count: number;
  readonly messages?: readonly Seen[] | undefined;
  readonly letters?: readonly number[] | undefined;
  readonly letterCount: number;
  readonly states?: Readonly<Record<string, unknown>> | undefined;
}

/** An answer that never arrived. */
export const LOST = "lost";

const fault: fc.Arbitrary<Fault> = fc.oneof(
  { weight: 10, arbitrary: fc.constant<Fault>("none") },
  { weight: 5, arbitrary: fc.constant<Fault>("after") },
  { weight: 3, arbitrary: fc.constant<Fault>("before") },
  { weight: 1, arbitrary: fc.constantFrom<Fault>("middle", "between") },
);

/** Settles several of the newest deliveries in one call: their messages differ in keys and states. */
const together: fc.Arbitrary<Command> = fc.record({
  do: fc.constantFrom("acknowledgeMany", "releaseMany"),
  picks: fc.uniqueArray(fc.nat({ max: 3 }), { minLength: 2, maxLength: 4 }),
});

/** How many processes use a queue. */
export const CLIENTS = 2;

/** Returns histories; without faults for a comparison of two engines. */
export function histories(faults: boolean): fc.Arbitrary<Step[]> {
  const step: fc.Arbitrary<Step> = fc.record({
    client: fc.nat({ max: CLIENTS - 1 }),
    command: fc.oneof({ weight: 9, arbitrary: timelessCommand }, together),
    fault: faults ? fault : fc.constant<Fault>("none"),
    nth: fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, fc.constant(2)),
    looks: fc.oneof({ weight: 6, arbitrary: fc.constant(false) }, fc.constant(true)),
    insists: fc.boolean(),
    repeated: fc.boolean(),
  });
  return fc.array(step, { minLength: 1, maxLength: 40, size: "max" });
}
