import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Runnable } from "../lifecycle/runnable.ts";
import type { VirtualClock } from "./virtual_clock.ts";

/** A fresh runnable that would run until it is told to stop, and the clock it was given. */
export interface LifecycleFixture {
  /** What the case is about. */
  readonly runnable: Runnable;
  /** The one that the runnable lives by. */
  readonly clock: VirtualClock;
  /** Counts whatever else it may leave behind: listeners, connections, threads. */
  readonly leftovers?: () => number;
}

/** One named case; any test runner can host it. */
export interface LifecycleCase {
  /** What it shows, as a sentence. */
  readonly name: string;
  /** Resolves when the case holds, rejects when it does not. */
  readonly run: (make: () => LifecycleFixture) => Promise<void>;
}

/**
 * What every {@linkcode Runnable} has to pass.
 *
 * @example
 * ```ts
 * import { StepLoop } from "@lastcall/lastcall";
 * import { lifecycleCases, VirtualClock } from "@lastcall/lastcall/testing";
 *
 * for (const { name, run } of lifecycleCases) {
 *   console.log(name);
 *   await run(() => {
 *     const clock = new VirtualClock();
 *     return { clock, runnable: new StepLoop("mine", ({ sleep }) => sleep(1_000), { clock }) };
 *   });
 * }
 * ```
 */
export const lifecycleCases: readonly LifecycleCase[] = [
  lifecycleCase("runs until it is told to stop", async ({ runnable, clock }) => {
    assertEquals(runnable.running, false);
    const run = runnable.run();
    assertEquals(runnable.running, true, "running from the call of run()");
    await clock.advance(100);
    assertEquals(runnable.running, true, "still running");
    assertEquals(await clock.until(runnable.shutdown()), true);
    assertEquals(runnable.running, false, "stopped once shutdown() has resolved");
    await run;
  }),

  lifecycleCase("stopping twice is stopping once", async ({ runnable, clock }) => {
    const run = runnable.run();
    await clock.settle();
    assertEquals(await clock.until(runnable.shutdown()), true);
    assertEquals(await clock.until(runnable.shutdown()), true);
    await run;
  }),

  lifecycleCase("a stop before the start ends that run at once", async ({ runnable, clock }) => {
    assertEquals(await clock.until(runnable.shutdown()), true);
    const before = clock.monotonic();
    await clock.until(runnable.run());
    assertEquals(clock.monotonic(), before, "no time has passed");
    assertEquals(runnable.running, false);
  }),

  lifecycleCase("a stop ends one run, not the runs after it", async ({ runnable, clock }) => {
    await clock.until(runnable.shutdown());
    await clock.until(runnable.run());
    await runAndStop({ runnable, clock });
  }),

  lifecycleCase("concurrent stops share one stop", async ({ runnable, clock }) => {
    const run = runnable.run();
    await clock.settle();
    const stops = [
      runnable.shutdown(),
      runnable.shutdown(),
      runnable.shutdown({ timeoutMs: 60_000 }),
    ];
    assertEquals(await clock.until(Promise.all(stops)), [true, true, true]);
    await run;
  }),

  lifecycleCase("it runs again after a stop", async ({ runnable, clock }) => {
    for (let round = 0; round < 3; round++) await runAndStop({ runnable, clock });
  }),

  lifecycleCase("a second run while one is under way is refused", async ({ runnable, clock }) => {
    const run = runnable.run();
    await assertRejects(() => runnable.run(), Error, "already running");
    assertEquals(runnable.running, true, "the first run goes on");
    await clock.until(runnable.shutdown());
    await run;
  }),

  lifecycleCase("an aborted signal stops it", async ({ runnable, clock }) => {
    const controller = new AbortController();
    const run = runnable.run({ signal: controller.signal });
    await clock.settle();
    controller.abort();
    await clock.until(run);
    assertEquals(runnable.running, false);
    await clock.until(runnable.run({ signal: controller.signal }));
  }),

  lifecycleCase("nothing stays attached to the caller's signal", async ({ runnable, clock }) => {
    const { signal } = new AbortController();
    let listening = 0;
    const { addEventListener, removeEventListener } = signal;
    signal.addEventListener = (...parameters: unknown[]) => {
      listening++;
      addEventListener.apply(signal, parameters as never);
    };
    signal.removeEventListener = (...parameters: unknown[]) => {
      listening--;
      removeEventListener.apply(signal, parameters as never);
    };
    const run = runnable.run({ signal });
    await clock.settle();
    await clock.until(runnable.shutdown());
    await run;
    assertEquals(listening, 0, "listeners left on the signal");
  }),

  lifecycleCase("the end of a block stops it", async ({ runnable, clock }) => {
    const run = runnable.run();
    await clock.settle();
    await clock.until(Promise.resolve(runnable[Symbol.asyncDispose]()));
    assertEquals(runnable.running, false);
    await run;
  }),

  lifecycleCase("a senseless timeout is refused and stops nothing", async ({ runnable, clock }) => {
    const run = runnable.run();
    await clock.settle();
    for (const timeoutMs of [-1, NaN]) {
      await assertRejects(() => runnable.shutdown({ timeoutMs }), RangeError, String(timeoutMs));
    }
    await clock.advance(100);
    assertEquals(runnable.running, true);
    await clock.until(runnable.shutdown());
    await run;
  }),
];

async function runAndStop({ runnable, clock }: LifecycleFixture): Promise<void> {
  const run = runnable.run();
  await clock.advance(10);
  assertEquals(runnable.running, true);
  assertEquals(await clock.until(runnable.shutdown()), true);
  await run;
}

/** Every case ends with the check that nothing was left behind. */
function lifecycleCase(
  name: string,
  check: (fixture: LifecycleFixture) => Promise<void>,
): LifecycleCase {
  return {
    name,
    async run(make) {
      const fixture = make();
      await check(fixture);
      assert(fixture.clock.pending === 0, `${fixture.clock.pending} timers are left`);
      assertEquals(fixture.leftovers?.() ?? 0, 0, "something is left behind");
    },
  };
}
