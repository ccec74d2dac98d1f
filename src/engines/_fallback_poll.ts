import type { Clock } from "../clock.ts";

/**
 * Calls `poll` at about the given interval, in case a notification was lost. The interval varies, so that
 * processes that start together do not poll together.
 */
export function pollNowAndThen(clock: Clock, intervalMs: number, poll: () => void): () => void {
  const schedule = () =>
    clock.schedule(intervalMs * (0.75 + Math.random() / 2), () => {
      cancel = schedule();
      poll();
    });
  let cancel = schedule();
  return () => cancel();
}
