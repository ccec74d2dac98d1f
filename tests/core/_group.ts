import { silentLog } from "../../src/log.ts";
import { LoopGroup } from "../../src/group/loop_group.ts";
import type { LoopGroupOptions } from "../../src/group/loop_group.ts";
import type { Runnable } from "../../src/lifecycle/runnable.ts";
import { type Step, StepLoop } from "../../src/loops/step_loop.ts";
import type { LoopOptions } from "../../src/lifecycle/base_loop.ts";
import { FakeRuntime } from "../../src/testing/fake_runtime.ts";
import { VirtualClock } from "../../src/testing/virtual_clock.ts";

/** A virtual clock, a fake process, and what is made on them. */
export class Bench {
  readonly clock: VirtualClock = new VirtualClock();
  readonly runtime: FakeRuntime;

  constructor(options: { readonly interactive?: boolean } = {}) {
    this.runtime = new FakeRuntime(options);
  }

  group(loops: readonly Runnable[], options: LoopGroupOptions = {}): LoopGroup {
    const { clock, runtime } = this;
    return new LoopGroup(loops, { clock, runtime, log: silentLog, ...options });
  }

  loop(name: string, step: Step, options: LoopOptions = {}): StepLoop {
    return new StepLoop(name, step, { clock: this.clock, ...options });
  }

  /** A loop that waits for work, and stops at once. */
  idle(name: string, options: LoopOptions = {}): StepLoop {
    return this.loop(name, ({ sleep }) => sleep(20_000), options);
  }

  /** A loop whose one step takes `ms`, whatever anybody says. */
  busy(name: string, ms: number, options: LoopOptions = {}): StepLoop {
    return this.loop(name, () => this.clock.sleep(ms), options);
  }

  /** A loop whose step ends only when it is cancelled. */
  obedient(name: string, options: LoopOptions = {}): StepLoop {
    return this.loop(name, ({ signal }) => this.clock.sleep(Infinity, { signal }), options);
  }

  /** A loop that never ends, whatever anybody says. */
  stuck(name: string, options: LoopOptions = {}): StepLoop {
    return this.loop(name, () => new Promise<void>(() => {}), options);
  }

  /** A loop that fails after `ms`. */
  failing(name: string, ms: number, options: LoopOptions = {}): StepLoop {
    return this.loop(name, async () => {
      await this.clock.sleep(ms);
      throw new Error(`${name} broke`);
    }, options);
  }
}
