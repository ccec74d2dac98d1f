// The searches of spin that must find a violation: broken variants of the model, and limits of its properties.

import type { Configuration, Property } from "./configurations.ts";

/** A search that must find a violated property. */
export interface Limit extends Omit<Configuration, "atLeast"> {
  readonly violates: Property;
}

/** A model with one realistic bug. */
export interface Variant extends Limit {
  /** The switch of the model that turns the bug on. */
  readonly bug: string;
}

/** Each variant has the fewest parameters with which its bug matters. */
export const variants: readonly Variant[] = [
  {
    name: "an acknowledgement needs no receipt handle",
    bug: "BUG_ACKNOWLEDGE_WITHOUT_HANDLE",
    parameters: "SLOTS=1 FREEZES=1",
    violates: "stale_changes_nothing",
  },
  {
    name: "a settled message can be released",
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
    name: "an absent owner has no grace",
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

/** What the correct model does not guarantee: it shows that the bounds of the configurations matter. */
export const limits: readonly Limit[] = [
  {
    name: "two poison messages, few deliveries",
    parameters: "SLOTS=3 POISON=3",
    violates: "innocents_live",
  },
  {
    name: "poison and two crashes, few deliveries",
    parameters: "SLOTS=3 POISON=1 CRASHES=2",
    violates: "innocents_live",
  },
];
