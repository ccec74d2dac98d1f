import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Runnable } from "../lifecycle/runnable.ts";
import type { VirtualClock } from "./virtual_clock.ts";

/** A new runnable that runs until it is stopped, and its clock. */
export interface LifecycleFixture {
  /** The runnable to test. */
  readonly runnable: Runnable;
  /** The clock of the runnable. */
  readonly clock: VirtualClock;
  /** Returns the number of listeners, connections or threads that are left after a run. */
  readonly leftovers?: () => number;
}

/** A named test case for any test runner. */
export interface LifecycleCase {
  /** The behaviour that it tests, as a sentence. */
  readonly name: string;
  /** Resolves when the case passes, and rejects when it fails. */
  readonly run: (make: () => LifecycleFixture) => Promise<void>;
}

/**
 * The test cases that every {@linkcode Runnable} has to pass.
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
  lifecycleCase("a runnable runs until it is stopped", async ({ runnable, clock }) => {
    assertEquals(runnable.running, false);
    const run = runnable.run();
    assertEquals(runnable.running, true, "running as soon as run() is called");
    await clock.advance(100);
    assertEquals(runnable.running, true, "still running");
    assertEquals(await clock.until(runnable.shutdown()), true);
    assertEquals(runnable.running, false, "stopped when shutdown() resolves");
    await run;
  }),

  lifecycleCase("a second shutdown has no effect", async ({ runnable, clock }) => {
    const run = runnable.run();
    await clock.settle();
    assertEquals(await clock.until(runnable.shutdown()), true);
    assertEquals(await clock.until(runnable.shutdown()), true);
    await run;
  }),

  lifecycleCase("a shutdown before a run ends that run at once", async ({ runnable, clock }) => {
    assertEquals(await clock.until(runnable.shutdown()), true);
    const before = clock.monotonic();
    await clock.until(runnable.run());
    assertEquals(clock.monotonic(), before, "no time passed");
    assertEquals(runnable.running, false);
  }),

  lifecycleCase("a shutdown ends one run, not the runs after it", async ({ runnable, clock }) => {
    await clock.until(runnable.shutdown());
    await clock.until(runnable.run());
    await runAndStop({ runnable, clock });
  }),

  lifecycleCase("concurrent shutdowns share one stop", async ({ runnable, clock }) => {
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

  lifecycleCase("a runnable can run again after a shutdown", async ({ runnable, clock }) => {
    for (let round = 0; round < 3; round++) await runAndStop({ runnable, clock });
  }),

  lifecycleCase("a second run at the same time is refused", async ({ runnable, clock }) => {
    const run = runnable.run();
    await assertRejects(() => runnable.run(), Error, "already running");
    assertEquals(runnable.running, true, "the first run continues");
    await clock.until(runnable.shutdown());
    await run;
  }),

  lifecycleCase("an aborted signal stops the run", async ({ runnable, clock }) => {
    const controller = new AbortController();
    const run = runnable.run({ signal: controller.signal });
    await clock.settle();
    controller.abort();
    await clock.until(run);
    assertEquals(runnable.running, false);
    await clock.until(runnable.run({ signal: controller.signal }));
  }),

  lifecycleCase("run leaves no listener on the caller's signal", async ({ runnable, clock }) => {
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

  lifecycleCase(
    "await using stops the run at the end of its block",
    async ({ runnable, clock }) => {
      const run = runnable.run();
      await clock.settle();
      await clock.until(Promise.resolve(runnable[Symbol.asyncDispose]()));
      assertEquals(runnable.running, false);
      await run;
    },
  ),

  lifecycleCase(
    "an invalid timeout is refused, and the run continues",
    async ({ runnable, clock }) => {
      const run = runnable.run();
      await clock.settle();
      for (const timeoutMs of [-1, NaN]) {
        await assertRejects(() => runnable.shutdown({ timeoutMs }), RangeError, String(timeoutMs));
      }
      await clock.advance(100);
      assertEquals(runnable.running, true);
      await clock.until(runnable.shutdown());
      await run;
    },
  ),
];

async function runAndStop({ runnable, clock }: LifecycleFixture): Promise<void> {
  const run = runnable.run();
  await clock.advance(10);
  assertEquals(runnable.running, true);
  assertEquals(await clock.until(runnable.shutdown()), true);
  await run;
}

/** Makes a case that ends with the check that nothing is left behind. */
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
