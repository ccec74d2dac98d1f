import type { Clock } from "../../clock.ts";
import { type Random, systemRandom } from "../../random.ts";

/**
 * Calls `poll` at about the given interval, in case a notification was lost. The interval varies, so that
 * processes that start together do not poll together.
 */
export function pollNowAndThen(
  clock: Clock,
  intervalMs: number,
  poll: () => void,
  random: Random = systemRandom,
): () => void {
  const schedule = () =>
    clock.schedule(intervalMs * (0.75 + random.number() / 2), () => {
      cancel = schedule();
      poll();
    });
  let cancel = schedule();
  return () => cancel();
}

/** Wakes `listener` by notifications and by the fallback poll. Returns the remover of both. */
export function wakeUps(
  listen: (listener: () => void) => () => void,
  clock: Clock,
  pollIntervalMs: number,
  listener: () => void,
  random: Random = systemRandom,
): () => void {
  const stopListening = listen(listener);
  const stopPolling = pollNowAndThen(clock, pollIntervalMs, listener, random);
  return () => {
    stopListening();
    stopPolling();
  };
}
