import type { Cancel, Clock } from "../../src/clock.ts";

/** A clock without timers: cheaper than a virtual one where nobody waits. */
export class ManualClock implements Clock {
  elapsed = 0;

  now(): number {
    return 1_900_000_000_000 + this.elapsed;
  }

  monotonic(): number {
    return this.elapsed;
  }

  sleep(): Promise<void> {
    throw new Error("Nobody waits on this clock");
  }

  schedule(): Cancel {
    throw new Error("Nobody waits on this clock");
  }
}
