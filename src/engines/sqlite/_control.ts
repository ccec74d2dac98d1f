import { QueueControl } from "../../mailbox/queue_control.ts";
import type { Statements } from "./_statements.ts";

/** Returns the pause and the rate limit of a queue. */
export function controlOf(statements: Statements, queue: string): QueueControl {
  const row = statements.control.get(queue) as { readonly state: string } | null | undefined;
  return parseControl(row?.state ?? null);
}

/** Returns the control that the file stores as JSON, or an empty one. */
export function parseControl(state: string | null): QueueControl {
  return state === null ? new QueueControl() : QueueControl.parse(state);
}

/** Stores the control of a queue. Runs in a transaction. Without a pause and a limit it leaves no trace. */
export function saveControl(
  { setControl, dropControl }: Statements,
  queue: string,
  control: QueueControl,
  now: number,
): void {
  const { paused, rateLimit } = control.stats(now);
  // A pause that is over leaves a state: without it, the next receives need not read it.
  if (!paused && rateLimit === undefined) dropControl.run(queue);
  else setControl.run(queue, JSON.stringify(control.state));
}

/** Changes and stores the control of a queue. Runs in a transaction. */
export function changeControl(
  statements: Statements,
  queue: string,
  now: number,
  change: (control: QueueControl, now: number) => void,
): void {
  const control = controlOf(statements, queue);
  change(control, now);
  saveControl(statements, queue, control, now);
  statements.addToCount.run(queue, 0); // `queues` names it, also without a message
}
