import type { Cancel, Clock } from "../../src/clock.ts";

/** A clock without timers. It is faster than a virtual clock, for tests without waits. */
export class ManualClock implements Clock {
  elapsed = 0;

  now(): number {
    return 1_900_000_000_000 + this.elapsed;
  }

  monotonic(): number {
    return this.elapsed;
  }

  sleep(): Promise<void> {
    throw new Error("This clock has no timers; use a VirtualClock");
  }

  schedule(): Cancel {
    throw new Error("This clock has no timers; use a VirtualClock");
  }
}
