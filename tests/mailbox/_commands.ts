import * as fc from "fast-check";

/** The options of one message. Ids and keys are few, so that they meet. */
export interface Sending {
  readonly delayMs: number;
  readonly id: number | null;
  /** Ignored without an id. */
  readonly dedupMs: number | null;
  readonly key: number | null;
  readonly priority: number;
  readonly expiresInMs: number | null;
  readonly drop: boolean;
}

/** One call of a mailbox. `pick` selects one of all deliveries or ids so far, also stale ones. */
export type Command =
  | { readonly do: "send"; readonly sending: Sending }
  | { readonly do: "sendMany"; readonly sendings: readonly Sending[] }
  | { readonly do: "receive"; readonly count: number; readonly ms: number }
  | { readonly do: Settling; readonly pick: number; readonly ms: number }
  | { readonly do: "acknowledgeMany" | "releaseMany"; readonly picks: readonly number[] }
  | { readonly do: "redrive"; readonly count: number }
  | { readonly do: "bounce"; readonly count: number; readonly ms: number }
  | { readonly do: ById; readonly pick: number }
  | { readonly do: "pass"; readonly ms: number }
  | { readonly do: "pause" | "resume" | "purge" };

const SETTLING = [
  "acknowledge",
  "nack",
  "nackFree",
  "release",
  "deadLetter",
  "extend",
  "save",
] as const;
/** A call of one delivery. `nackFree` is a nack that does not count as an attempt. */
export type Settling = typeof SETTLING[number];

const BY_ID = [
  "get",
  "cancel",
  "cancel",
  "deliverNow",
  "deliverNow",
  "redriveById",
  "deleteLetter",
] as const;
/** A call with the id of a message. `deleteLetter` cancels a dead letter. */
export type ById = typeof BY_ID[number];

const ms = fc.integer({ min: 0, max: 12 });
const count = fc.integer({ min: 1, max: 4 });
/** Selects recent deliveries more often. */
const pick = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 0, max: 3 }) },
  fc.nat({ max: 40 }),
);

const sending: fc.Arbitrary<Sending> = fc.record({
  delayMs: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, ms),
  id: fc.option(fc.integer({ min: 0, max: 2 })),
  dedupMs: fc.option(fc.integer({ min: 1, max: 20 })),
  key: fc.option(fc.integer({ min: 0, max: 2 }), { freq: 2 }),
  priority: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.integer({ min: 0, max: 9 })),
  expiresInMs: fc.oneof(
    { weight: 3, arbitrary: fc.constant(null) },
    fc.integer({ min: 1, max: 15 }),
  ),
  drop: fc.boolean(),
});

/** The commands with this name. */
function command<D extends Command["do"]>(
  name: fc.Arbitrary<D>,
  fields: Readonly<Record<string, fc.Arbitrary<unknown>>> = {},
): fc.Arbitrary<Command> {
  return fc.record({ ...fields, do: name }) as fc.Arbitrary<unknown> as fc.Arbitrary<Command>;
}

const is = fc.constant;

/** Any call of a mailbox. */
const anyCommand: fc.Arbitrary<Command> = fc.oneof<fc.MaybeWeightedArbitrary<Command>[]>(
  { weight: 4, arbitrary: command(is("send"), { sending }) },
  {
    weight: 2,
    arbitrary: command(is("sendMany"), {
      sendings: fc.array(sending, { minLength: 1, maxLength: 4 }),
    }),
  },
  { weight: 8, arbitrary: command(is("receive"), { count, ms }) },
  { weight: 14, arbitrary: command(fc.constantFrom(...SETTLING), { pick, ms }) },
  {
    weight: 2,
    arbitrary: command(fc.constantFrom("acknowledgeMany", "releaseMany"), {
      picks: fc.uniqueArray(pick, { maxLength: 4 }),
    }),
  },
  { weight: 1, arbitrary: command(is("redrive"), { count }) },
  {
    weight: 1,
    arbitrary: command(is("bounce"), { count: fc.integer({ min: 1, max: 8 }), ms: is(5) }),
  },
  { weight: 6, arbitrary: command(fc.constantFrom(...BY_ID), { pick }) },
  { weight: 6, arbitrary: command(is("pass"), { ms }) },
  { weight: 2, arbitrary: command(fc.constantFrom("pause", "resume", "resume")) },
  { weight: 1, arbitrary: command(is("purge")) },
);

/** All calls of a mailbox, in any order. */
export const histories: fc.Arbitrary<Command[]> = fc.array(anyCommand, {
  maxLength: 60,
  size: "max",
});

/** Longer than any test. */
const LONG_MS = 600_000;

/** Any call, with times that do not depend on a clock. */
export const timelessCommand: fc.Arbitrary<Command> = anyCommand
  .filter((it) => it.do !== "pass").map(timeless);

/** Histories in which no time passes, for engines that have a clock of their own. */
export const timelessHistories: fc.Arbitrary<Command[]> = histories.map((commands) => {
  return commands.flatMap((command) => command.do === "pass" ? [] : [timeless(command)]);
});

/** Makes times so short or so long that they do not depend on a clock. */
function timeless(command: Command): Command {
  const brief = (ms: number) => ms > 8 ? LONG_MS : 0;
  const long = (ms: number | null) => ms === null ? null : LONG_MS;
  const still = (sending: Sending): Sending => ({
    ...sending,
    delayMs: brief(sending.delayMs),
    dedupMs: long(sending.dedupMs),
    expiresInMs: long(sending.expiresInMs),
  });
  switch (command.do) {
    case "send":
      return { ...command, sending: still(command.sending) };
    case "sendMany":
      return { ...command, sendings: command.sendings.map(still) };
    case "receive":
    case "bounce":
    case "extend":
      return { ...command, ms: LONG_MS };
    case "nack":
    case "nackFree":
      return { ...command, ms: brief(command.ms) };
    default:
      return command;
  }
}
