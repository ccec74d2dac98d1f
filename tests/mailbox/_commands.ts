import * as fc from "fast-check";

/** One call of a mailbox. `pick` selects one of all deliveries so far, also stale ones. */
export type Command =
  | { readonly do: "send"; readonly ms: number; readonly key: number | null }
  | { readonly do: "sendMany"; readonly count: number; readonly ms: number }
  | { readonly do: "receive"; readonly count: number; readonly ms: number }
  | { readonly do: Settling; readonly pick: number; readonly ms: number }
  | { readonly do: "acknowledgeMany" | "releaseMany"; readonly picks: readonly number[] }
  | { readonly do: "redrive" | "bounce"; readonly count: number }
  | { readonly do: "pass"; readonly ms: number }
  | { readonly do: "purge" };

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

const ms = fc.integer({ min: 0, max: 12 });
const count = fc.integer({ min: 1, max: 4 });
/** Selects recent deliveries more often. */
const pick = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 0, max: 3 }) },
  fc.nat({ max: 40 }),
);

/** All calls of a mailbox, in any order. */
export const histories: fc.Arbitrary<Command[]> = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.record({ do: fc.constant("send"), ms: delays(), key: keys() }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("sendMany"), count, ms: delays() }) },
    { weight: 8, arbitrary: fc.record({ do: fc.constant("receive"), count, ms }) },
    { weight: 14, arbitrary: fc.record({ do: fc.constantFrom(...SETTLING), pick, ms }) },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constantFrom("acknowledgeMany", "releaseMany"),
        picks: fc.uniqueArray(pick, { maxLength: 4 }),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("redrive"), count }) },
    {
      weight: 1,
      arbitrary: fc.record({ do: fc.constant("bounce"), count: fc.integer({ min: 1, max: 8 }) }),
    },
    { weight: 6, arbitrary: fc.record({ do: fc.constant("pass"), ms }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("purge") }) },
  ) as fc.Arbitrary<Command>,
  { maxLength: 60, size: "max" },
);

function delays(): fc.Arbitrary<number> {
  return fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, ms);
}

function keys(): fc.Arbitrary<number | null> {
  return fc.option(fc.integer({ min: 0, max: 2 }));
}
