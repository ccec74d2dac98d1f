import type { Clock } from "../clock.ts";

/**
 * Calls `look` every now and then, for the case that a notification was lost. Processes that were started
 * together do not look in step.
 */
export function pollNowAndThen(clock: Clock, intervalMs: number, look: () => void): () => void {
  const schedule = () =>
    clock.schedule(intervalMs * (0.75 + Math.random() / 2), () => {
      cancel = schedule();
      look();
    });
  let cancel = schedule();
  return () => cancel();
}
