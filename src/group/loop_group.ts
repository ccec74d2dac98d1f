import { checkCount } from "../_checks.ts";
import { systemClock } from "../clock.ts";
import type { HealthOptions } from "../health/health_options.ts";
import { safeLog } from "../library_log.ts";
import { BaseGroup, type StopView } from "../lifecycle/base_group.ts";
import type { BaseGroupOptions } from "../lifecycle/group_options.ts";
import type { Resource } from "../lifecycle/resources.ts";
import type { Runnable } from "../lifecycle/runnable.ts";
import { defaultRuntime, type Runtime } from "../runtime.ts";

/** Options of {@linkcode LoopGroup}. */
export interface LoopGroupOptions extends BaseGroupOptions {
  /** Whether `main()` shows the stop on standard error, as `showDrain` does. @default {true} */
  readonly drainView?: boolean;
  /**
   * Serves `healthApp` on this port, 0 for any free one, from before the start until after the stop.
   *
   * @default {no server}
   */
  readonly healthPort?: number;
  /** The address that the health server listens on. @default {"0.0.0.0"} */
  readonly healthHost?: string;
  /** Checks, a token and further metrics for the health server. */
  readonly health?: HealthOptions;
}

/**
 * Runs loops together and stops them together: by a signal, by a call, or because one of them failed.
 * Every stop has one deadline for all, and ends in a {@linkcode DrainReport}.
 *
 * @example Run until SIGTERM or Ctrl+C, then end the process with the right exit code
 * ```ts ignore
 * import { LoopGroup, StepLoop } from "@lastcall/lastcall";
 *
 * const mailer = new StepLoop("mailer", async ({ sleep }) => await sleep(1_000));
 * await new LoopGroup([mailer], { shutdownTimeoutMs: 10_000 }).main();
 * ```
 *
 * @example Stop at the end of a block
 * ```ts
 * import { LoopGroup, StepLoop } from "@lastcall/lastcall";
 *
 * await using group = new LoopGroup([new StepLoop("poller", ({ sleep }) => sleep(1_000))]);
 * const run = group.run();
 * // … other work …
 * await group.shutdown({ timeoutMs: 5_000 });
 * console.log(String(await run));
 * ```
 */
export class LoopGroup extends BaseGroup {
  readonly #options: LoopGroupOptions;

  /** Checks the options. Nothing starts before `run`. */
  constructor(loops: readonly Runnable[], options: LoopGroupOptions = {}) {
    super(loops, options);
    if (options.healthPort !== undefined) checkCount("healthPort", options.healthPort, 0, 65_535);
    this.#options = options;
  }

  /** The health server starts first and stops last. Its modules are loaded only with a `healthPort`. */
  protected override firstResources(): readonly Resource[] {
    const { healthPort: port, healthHost: hostname = "0.0.0.0", health } = this.#options;
    if (port === undefined) return [];
    const { clock = systemClock } = this.#options;
    const log = safeLog(this.#options.log);
    let stop: Resource["stop"] = () => {};
    return [{
      name: "health",
      start: async () => {
        const { loadHono, serveHealth } = await import("../health/health_server.ts");
        const hono = await loadHono("healthPort", this.#runtime);
        const options = { clock, log, ...health };
        stop = await serveHealth(hono, this, this.#runtime, { port, hostname }, options);
      },
      stop: async (context) => await stop(context),
    }];
  }

  /** Loads the view while the loops run, so that a stop does not wait for it. */
  protected override showStop(): Promise<StopView> | undefined {
    const { drainView = true, clock = systemClock } = this.#options;
    if (!drainView) return undefined;
    return import("../terminal/show_drain.ts").then(({ showDrain }) => {
      return showDrain(this, { clock, runtime: this.#runtime });
    });
  }

  get #runtime(): Runtime {
    return this.#options.runtime ?? defaultRuntime();
  }
}
