// What spin checks: configurations that must hold, and broken variants of the model that must fail.

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

/** A model with one realistic bug. */
export interface Variant extends Omit<Configuration, "atLeast" | "quick"> {
  /** The switch of the model that turns the bug on. */
  readonly bug: string;
  /** The property that the search must find violated. */
  readonly violates: Property;
}

/** All configurations have three messages and three workers. */
export const configurations: readonly Configuration[] = [
  { name: "failures", parameters: "SLOTS=3 FAILURES=2", atLeast: 2_000, quick: true },
  { name: "crash", parameters: "CRASHES=1 FAILURES=1", atLeast: 20_000, quick: true },
  { name: "freeze", parameters: "SLOTS=1 FREEZES=1 TICKS=1", atLeast: 50_000, quick: true },
  { name: "lost answer", parameters: "SLOTS=1 LOST_CALLS=1", atLeast: 2_000, quick: true },
  { name: "key", parameters: "KEYED=3 CRASHES=1 FAILURES=1", atLeast: 10_000, quick: true },
  {
    name: "dead owner",
    parameters: "SLOTS=1 OWNERS CRASHES=1 DROPS=1",
    atLeast: 50_000,
    quick: true,
  },
  {
    name: "wrong guess",
    parameters: "SLOTS=1 OWNERS FREEZES=1 DROPS=1",
    atLeast: 50_000,
    quick: true,
  },
  { name: "poison", parameters: "SLOTS=3 POISON=1", atLeast: 200_000, quick: true },
  { name: "graceful stop", parameters: "STOPS=3 FAILURES=1", atLeast: 20_000, quick: true },
  {
    name: "deadline",
    parameters: "SLOTS=1 STOPS=2 DEADLINE REPLACED",
    atLeast: 20_000,
    quick: true,
  },
  {
    name: "handled: wake-ups",
    parameters: "SLOTS=1 SENDING WAKING FAILURES=1",
    formula: "handled_in_the_end",
    atLeast: 10_000,
    quick: true,
  },
  {
    name: "handled: dead owner",
    parameters: "SLOTS=1 OWNERS CRASHES=1 DROPS=1",
    formula: "handled_in_the_end",
    atLeast: 50_000,
    quick: true,
  },
  {
    name: "stop ends: hanging handler",
    parameters: "SLOTS=1 STOPS=2 DEADLINE HANGING=1",
    formula: "stop_ends",
    atLeast: 5_000,
    quick: true,
  },
  {
    name: "crash and lost answer",
    parameters: "SLOTS=3 CRASHES=1 FAILURES=1 LOST_CALLS=1",
    atLeast: 2e6,
  },
  { name: "crash and freeze", parameters: "CRASHES=1 FREEZES=1", atLeast: 4e6 },
  {
    name: "two deliveries in a worker",
    parameters: "COPIES=2 SLOTS=1 FREEZES=1 LOST_CALLS=1",
    atLeast: 5e5,
  },
  { name: "extensions", parameters: "FREEZES=1 TICKS=1", atLeast: 3e5 },
  {
    name: "one line",
    parameters: "KEYED=7 CRASHES=1 FREEZES=1 FAILURES=2 LOST_CALLS=1",
    atLeast: 3e5,
  },
  {
    name: "a line and another message",
    parameters: "KEYED=3 SENDING CRASHES=1 FREEZES=1 FAILURES=1",
    atLeast: 1e6,
  },
  { name: "poison and a crash", parameters: "SLOTS=3 POISON=1 CRASHES=1", atLeast: 1e6 },
  {
    name: "poison with a key",
    parameters: "SLOTS=3 POISON=1 KEYED=3 CRASHES=1 FAILURES=1",
    atLeast: 1e5,
  },
  { name: "hanging handler", parameters: "SLOTS=3 HANGING=1 WATCHDOG CRASHES=1", atLeast: 1e6 },
  {
    name: "deadline and failures",
    parameters: "STOPS=2 DEADLINE REPLACED FAILURES=1",
    atLeast: 1e6,
  },
  {
    name: "stop and faults",
    parameters: "SLOTS=1 STOPS=1 DEADLINE REPLACED CRASHES=1 LOST_CALLS=1",
    atLeast: 5e5,
  },
  {
    name: "handled: crash and freeze",
    parameters: "SLOTS=1 CRASHES=1 FREEZES=1",
    formula: "handled_in_the_end",
    atLeast: 1e5,
  },
  {
    name: "handled: crash and lost answer",
    parameters: "SLOTS=1 CRASHES=1 LOST_CALLS=1",
    formula: "handled_in_the_end",
    atLeast: 1e5,
  },
  {
    name: "handled: key",
    parameters: "KEYED=3 SENDING WAKING CRASHES=1 FAILURES=1",
    formula: "handled_in_the_end",
    atLeast: 1e5,
  },
  {
    name: "handled: poison",
    parameters: "SLOTS=3 POISON=1",
    formula: "handled_in_the_end",
    atLeast: 2e5,
  },
  {
    name: "handled: rolling stop",
    parameters: "SENDING WAKING STOPS=2 REPLACED",
    formula: "handled_in_the_end",
    atLeast: 1e5,
  },
];

/** Each variant has the fewest parameters with which its bug matters. */
export const variants: readonly Variant[] = [
  {
    name: "acknowledge without a receipt handle",
    bug: "BUG_ACKNOWLEDGE_WITHOUT_HANDLE",
    parameters: "SLOTS=1 FREEZES=1",
    violates: "stale_changes_nothing",
  },
  {
    name: "release of a settled message",
    bug: "BUG_RELEASE_AFTER_SETTLING",
    parameters: "SLOTS=1 FREEZES=1 STOPS=1",
    violates: "stale_changes_nothing",
  },
  {
    name: "the receipt handle is the name of the worker",
    bug: "BUG_HANDLE_IS_THE_WORKER",
    parameters: "SLOTS=1 COPIES=2 FREEZES=1",
    violates: "stale_changes_nothing",
  },
  {
    name: "a receipt handle outlives its lease",
    bug: "BUG_HANDLE_OUTLIVES_LEASE",
    parameters: "SLOTS=1 CRASHES=1",
    violates: "one_lease",
  },
  {
    name: "a repeated call is refused",
    bug: "BUG_REPEATED_CALL_REFUSED",
    parameters: "SLOTS=1 LOST_CALLS=1",
    violates: "settlement_is_counted",
  },
  {
    name: "the engine ignores extensions",
    bug: "BUG_EXTENSION_IGNORED",
    parameters: "SLOTS=1 TICKS=1",
    violates: "extended_lease_lasts",
  },
  {
    name: "dead-lettering takes two calls",
    bug: "BUG_DEAD_LETTER_IN_TWO_STEPS",
    parameters: "SLOTS=1 FAILURES=2",
    violates: "one_place",
  },
  {
    name: "a nack unblocks the key",
    bug: "BUG_KEY_UNBLOCKED_BY_NACK",
    parameters: "SLOTS=1 KEYED=3 FAILURES=1",
    violates: "key_order",
  },
  {
    name: "an expired message joins its line again",
    bug: "BUG_KEY_JOINS_AGAIN",
    parameters: "SLOTS=1 KEYED=3 CRASHES=1",
    violates: "key_order",
  },
  {
    name: "dead-lettering does not unblock the key",
    bug: "BUG_KEY_BLOCKED_BY_DEAD_LETTER",
    parameters: "SLOTS=1 KEYED=3 FAILURES=2",
    formula: "handled_in_the_end",
    violates: "handled_in_the_end",
  },
  {
    name: "owners are judged without a grace",
    bug: "BUG_NO_GRACE",
    parameters: "SLOTS=1 OWNERS DROPS=1",
    violates: "extended_lease_lasts",
  },
  {
    name: "a restarted worker has the owner of the dead one",
    bug: "BUG_OWNER_KNOWN_BY_NAME",
    parameters: "SLOTS=1 OWNERS CRASHES=1",
    violates: "extended_lease_lasts",
  },
  {
    name: "suspects run beside other messages",
    bug: "BUG_SUSPECTS_RUN_BESIDE_OTHERS",
    parameters: "SLOTS=3 POISON=1",
    violates: "innocents_live",
  },
  {
    name: "the second unsettled delivery is the last",
    bug: "SPENT_AFTER=2",
    parameters: "SLOTS=3 POISON=1 MAX_DELIVERIES=2",
    violates: "innocents_live",
  },
  {
    name: "suspects are received together again",
    bug: "BUG_SUSPECTS_RECEIVED_TOGETHER",
    parameters: "SLOTS=3 POISON=1",
    formula: "handled_in_the_end",
    violates: "handled_in_the_end",
  },
  {
    name: "a release counts an attempt",
    bug: "BUG_RELEASE_COUNTS_ATTEMPT",
    parameters: "SLOTS=1 STOPS=1 FAILURES=1",
    violates: "innocents_live",
  },
  {
    name: "a stop does not release unstarted messages",
    bug: "BUG_STOP_KEEPS_UNSTARTED",
    parameters: "SLOTS=1 STOPS=1",
    violates: "stop_leaves_nothing",
  },
  {
    name: "a stop releases messages whose handlers run",
    bug: "BUG_STOP_RELEASES_RUNNING",
    parameters: "SLOTS=1 STOPS=1",
    violates: "no_duplicate",
  },
  {
    name: "an abandoned message is counted twice",
    bug: "BUG_ABANDONED_COUNTED_TWICE",
    parameters: "SLOTS=1 STOPS=1 DEADLINE",
    violates: "counts_balance",
  },
  {
    name: "a stop waits for hanging handlers",
    bug: "BUG_STOP_WAITS_FOR_HANDLERS",
    parameters: "SLOTS=1 STOPS=1 DEADLINE HANGING=1",
    formula: "stop_ends",
    violates: "stop_ends",
  },
  {
    name: "a release leaves the message hidden",
    bug: "BUG_RELEASE_STAYS_HIDDEN",
    parameters: "SLOTS=1 STOPS=1",
    formula: "handled_in_the_end",
    violates: "handled_in_the_end",
  },
  {
    name: "a release wakes no worker",
    bug: "BUG_RELEASE_WAKES_NO_WORKER",
    parameters: "SLOTS=1 WAKING STOPS=1",
    formula: "handled_in_the_end",
    violates: "handled_in_the_end",
  },
  {
    name: "a wake-up before the sleep is lost",
    bug: "BUG_WAKE_UP_LOST_BEFORE_SLEEP",
    parameters: "SLOTS=1 SENDING WAKING",
    formula: "handled_in_the_end",
    violates: "handled_in_the_end",
  },
];
