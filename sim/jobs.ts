// The messages of a simulation: what their handlers do.

/** The queue of all messages that are sent from outside. */
export const QUEUE = "jobs";

/** The queue of the messages of cron slots. */
export const CRON_QUEUE = "slots";

/** What the handler of a message does. */
export type WorkKind =
  | "ok" // waits, and ends early when it is cancelled
  | "stubborn" // waits, and ignores that it is cancelled
  | "flaky" // fails twice, then succeeds
  | "bad" // fails always
  | "hangs" // never ends in its first call, and ignores that it is cancelled
  | "poison" // ends its process, always
  | "blocks" // blocks the event loop
  | "steps" // three steps, each of which must run once
  | "later" // asks for a later attempt once, and pauses the queue for it
  | "settles"; // acknowledges the message itself, and goes on

/** The body of a message. */
export interface Job {
  readonly work: WorkKind;
  readonly ms: number;
}

/** Work that succeeds whatever happens to the processes: it must never be dead-lettered. */
export function isInnocent(work: WorkKind): boolean {
  return work !== "bad" && work !== "poison";
}

/** How often a handler of `flaky` work fails. */
export const FLAKY_FAILURES = 2;

/** The names of the steps of `steps` work. */
export const STEPS: readonly string[] = ["reserve", "charge", "ship"];
