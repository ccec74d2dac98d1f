// The searches of spin that must find no violation.

/** A property of the model. The last two are formulas over whole runs, the others assertions. */
export type Property =
  | "one_place"
  | "one_lease"
  | "key_order"
  | "handled_before_removed"
  | "innocents_live"
  | "counts_balance"
  | "stale_changes_nothing"
  | "extended_lease_lasts"
  | "settlement_is_counted"
  | "no_duplicate"
  | "stop_leaves_nothing"
  | Formula;

/** A formula of `model/lastcall.pml`. */
export type Formula = "handled_in_the_end" | "stop_ends";

/** One search of spin. */
export interface Configuration {
  readonly name: string;
  /** The parameters of the model: `KEYED=3 WAKING`. */
  readonly parameters: string;
  /** The formula to check instead of the assertions. */
  readonly formula?: Formula;
  /** True in the quick set, which `npm test` checks. */
  readonly quick?: boolean;
  /** The least number of states that the search must find: a model in which nothing can happen would hold. */
  readonly atLeast: number;
}

/** All configurations have three messages and three workers. */
export const configurations: readonly Configuration[] = [
  { name: "failures", parameters: "SLOTS=3 FAILURES=2", atLeast: 6_300, quick: true },
  { name: "crash", parameters: "CRASHES=1 FAILURES=1", atLeast: 170_000, quick: true },
  { name: "freeze", parameters: "SLOTS=1 FREEZES=1 TICKS=1", atLeast: 110_000, quick: true },
  { name: "lost answer", parameters: "SLOTS=1 LOST_CALLS=1", atLeast: 2_700, quick: true },
  { name: "key", parameters: "KEYED=3 CRASHES=1 FAILURES=1", atLeast: 17_000, quick: true },
  {
    name: "dead owner",
    parameters: "SLOTS=1 OWNERS CRASHES=1 DROPS=1",
    atLeast: 120_000,
    quick: true,
  },
  {
    name: "wrong guess",
    parameters: "SLOTS=1 OWNERS FREEZES=1 DROPS=1",
    atLeast: 150_000,
    quick: true,
  },
  { name: "poison", parameters: "SLOTS=3 POISON=1", atLeast: 430_000, quick: true },
  { name: "graceful stop", parameters: "STOPS=3 FAILURES=1", atLeast: 62_000, quick: true },
  {
    name: "deadline",
    parameters: "SLOTS=1 STOPS=2 DEADLINE REPLACED",
    atLeast: 380_000,
    quick: true,
  },
  {
    name: "handled: wake-ups",
    parameters: "SLOTS=1 SENDING WAKING FAILURES=1",
    formula: "handled_in_the_end",
    atLeast: 32_000,
    quick: true,
  },
  {
    name: "handled: dead owner",
    parameters: "SLOTS=1 OWNERS CRASHES=1 DROPS=1",
    formula: "handled_in_the_end",
    atLeast: 120_000,
    quick: true,
  },
  {
    name: "stop ends: hanging handler",
    parameters: "SLOTS=1 STOPS=2 DEADLINE HANGING=1",
    formula: "stop_ends",
    atLeast: 150_000,
    quick: true,
  },
  {
    name: "crash and lost answer",
    parameters: "SLOTS=3 CRASHES=1 FAILURES=1 LOST_CALLS=1",
    atLeast: 2_800_000,
  },
  { name: "crash and freeze", parameters: "CRASHES=1 FREEZES=1", atLeast: 5_300_000 },
  {
    name: "two deliveries in a worker",
    parameters: "COPIES=2 SLOTS=1 FREEZES=1 LOST_CALLS=1",
    atLeast: 1_100_000,
  },
  { name: "extensions", parameters: "FREEZES=1 TICKS=1", atLeast: 440_000 },
  {
    name: "one line",
    parameters: "KEYED=7 CRASHES=1 FREEZES=1 FAILURES=2 LOST_CALLS=1",
    atLeast: 1_100_000,
  },
  {
    name: "a line and another message",
    parameters: "KEYED=3 SENDING CRASHES=1 FREEZES=1 FAILURES=1",
    atLeast: 2_200_000,
  },
  { name: "poison and a crash", parameters: "SLOTS=3 POISON=1 CRASHES=1", atLeast: 2_000_000 },
  {
    name: "poison with a key",
    parameters: "SLOTS=3 POISON=1 KEYED=3 CRASHES=1 FAILURES=1",
    atLeast: 290_000,
  },
  {
    name: "hanging handler",
    parameters: "SLOTS=3 HANGING=1 WATCHDOG CRASHES=1",
    atLeast: 4_100_000,
  },
  {
    name: "deadline and failures",
    parameters: "SLOTS=1 STOPS=2 DEADLINE REPLACED FAILURES=1",
    atLeast: 3_300_000,
  },
  {
    name: "stop and faults",
    parameters: "SLOTS=1 STOPS=1 DEADLINE REPLACED CRASHES=1 LOST_CALLS=1",
    atLeast: 4_500_000,
  },
  {
    name: "handled: crash and freeze",
    parameters: "SLOTS=1 CRASHES=1 FREEZES=1",
    formula: "handled_in_the_end",
    atLeast: 1_000_000,
  },
  {
    name: "handled: crash and lost answer",
    parameters: "SLOTS=1 CRASHES=1 LOST_CALLS=1",
    formula: "handled_in_the_end",
    atLeast: 130_000,
  },
  {
    name: "handled: key",
    parameters: "KEYED=3 SENDING WAKING CRASHES=1 FAILURES=1",
    formula: "handled_in_the_end",
    atLeast: 410_000,
  },
  {
    name: "handled: poison",
    parameters: "SLOTS=3 POISON=1",
    formula: "handled_in_the_end",
    atLeast: 430_000,
  },
  {
    name: "handled: rolling stop",
    parameters: "SENDING WAKING STOPS=2 REPLACED",
    formula: "handled_in_the_end",
    atLeast: 380_000,
  },
];
