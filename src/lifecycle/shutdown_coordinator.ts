import { checkOneOf, show } from "../_checks.ts";
import { settlesWithin } from "../_promises.ts";
import { type Clock, systemClock } from "../clock.ts";
import { TerminatingError } from "../errors.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import {
  defaultRuntime,
  exitCodeOf,
  type Runtime,
  SIGNAL_NUMBERS,
  type SignalName,
} from "../runtime.ts";
import { isInside, runInside } from "./_inside.ts";
import { processShare } from "./_process_share.ts";
import type { StopReason } from "./group_events.ts";

/** Called once when the stop begins; may take its time. */
export type ShutdownCallback = (reason: StopReason) => unknown;

/** What a second signal does: cancel work in flight, end the process, or nothing at all. */
export type SecondSignal = "cancel" | "exit" | "ignore";

/** Options of {@linkcode ShutdownCoordinator.install}. They count when it is first installed. */
export interface InstallOptions {
  /** The signals that ask for a stop. @default {SIGTERM and SIGINT, where the platform has them} */
  readonly signals?: readonly SignalName[];
  /** Where the signals come from. @default {the one this program runs on} */
  readonly runtime?: Runtime;
  /** What a second signal does; with `cancel`, a third ends the process. @default {"cancel"} */
  readonly onSecondSignal?: SecondSignal;
  /** What tells a repeated signal from a second one. @default {systemClock} */
  readonly clock?: Clock;
  /** Hears of callbacks that failed. @default {libraryLog} */
  readonly log?: Log;
}

/** The coordinator that listens to the signals of the process, and what holds it in place. */
interface Installation {
  readonly coordinator: ShutdownCoordinator;
  readonly uninstall: () => void;
  /** How many runs need it. */
  holders: number;
  /** Whether it stays when no run needs it. */
  permanent: boolean;
}

/** One Ctrl+C often arrives twice, also as another signal; within this time it is the same one. */
const SAME_SIGNAL_MS = 200;

/**
 * Turns the signals of the process into one stop. There is one per process, as signals are, also where
 * several copies of the package are loaded.
 *
 * ```text
 * waiting ── first signal, trigger() ──▶ triggered ── second signal ──▶ forced ── third ──▶ exit
 * ```
 *
 * A stop that was asked for before anybody registered still counts: whoever registers later is called
 * at once.
 *
 * @example
 * ```ts
 * import { ShutdownCoordinator, StepLoop } from "@lastcall/lastcall";
 *
 * const loop = new StepLoop("worker", ({ pause }) => pause(1_000));
 * const coordinator = ShutdownCoordinator.install();
 * coordinator.register(loop.shutdown);
 * const run = loop.run();
 * await coordinator.trigger("an example ends here, not by a signal");
 * await run;
 * ShutdownCoordinator.reset();
 * ```
 */
export class ShutdownCoordinator {
  readonly #runtime: Runtime;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #onSecondSignal: SecondSignal;
  readonly #removers: (() => void)[] = [];
  readonly #stop = new AbortController();
  readonly #force = new AbortController();
  readonly #callbacks = new Set<ShutdownCallback>();
  readonly #pending = new Map<ShutdownCallback, Promise<void>>();
  #reason: StopReason | undefined;
  #lastSignalAt = -Infinity;

  private constructor(options: InstallOptions) {
    this.#runtime = options.runtime ?? defaultRuntime();
    this.#clock = options.clock ?? systemClock;
    this.#log = safeLog(options.log);
    this.#onSecondSignal = options.onSecondSignal ?? "cancel";
  }

  /** Starts listening and returns the process's coordinator; the same one when there is one already. */
  static install(options: InstallOptions = {}): ShutdownCoordinator {
    const installation = ShutdownCoordinator.#installed(options);
    installation.permanent = true;
    return installation.coordinator;
  }

  /**
   * Like `install`, for as long as somebody needs it: when the last holder lets go and no stop was
   * asked for, the signals have their ordinary effect again.
   */
  static hold(options: InstallOptions = {}): { coordinator: ShutdownCoordinator; release(): void } {
    const installation = ShutdownCoordinator.#installed(options);
    const { coordinator } = installation;
    installation.holders++;
    return {
      coordinator,
      release() {
        installation.holders--;
        if (installation.holders > 0 || installation.permanent || coordinator.triggered) return;
        if (processShare<Installation>().installation === installation) ShutdownCoordinator.reset();
      },
    };
  }

  /** The installed coordinator, if there is one. */
  static get(): ShutdownCoordinator | undefined {
    return processShare<Installation>().installation?.coordinator;
  }

  /** Removes the signal listeners and forgets the coordinator. */
  static reset(): void {
    const share = processShare<Installation>();
    share.installation?.uninstall();
    share.installation = undefined;
  }

  static #installed(options: InstallOptions): Installation {
    checkOneOf("onSecondSignal", options.onSecondSignal ?? "cancel", ["cancel", "exit", "ignore"]);
    for (const signal of options.signals ?? []) {
      checkOneOf("signal", signal, Object.keys(SIGNAL_NUMBERS) as SignalName[]);
    }
    const share = processShare<Installation>();
    if (share.installation !== undefined) return share.installation;
    const coordinator = new ShutdownCoordinator(options);
    coordinator.#listen(options.signals ?? coordinator.#runtime.stopSignals);
    const uninstall = () => coordinator.#uninstall();
    return share.installation = { coordinator, uninstall, holders: 0, permanent: false };
  }

  /** True from the first signal or `trigger` on. */
  get triggered(): boolean {
    return this.#stop.signal.aborted;
  }

  /** Why the stop began. */
  get reason(): StopReason | undefined {
    return this.#reason;
  }

  /** Aborted when the stop begins, with a {@linkcode TerminatingError}. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** Aborted when the stop is forced by a second signal; its reason is the {@linkcode StopReason}. */
  get forceSignal(): AbortSignal {
    return this.#force.signal;
  }

  /** How many callbacks are registered. */
  get registered(): number {
    return this.#callbacks.size;
  }

  /**
   * Has `callback` called when the stop begins, in the order of registration; at once if it has. A
   * callback that is registered already is called and waited for once.
   */
  register(callback: ShutdownCallback): void;
  /** The same for what takes no reason, as `loop.shutdown` does. */
  register(callback: () => unknown): void;
  register(callback: ShutdownCallback): void {
    if (typeof callback !== "function") {
      throw new TypeError(`Invalid shutdown callback: expected a function, got ${show(callback)}`);
    }
    if (this.#callbacks.has(callback)) return;
    this.#callbacks.add(callback);
    if (this.#reason !== undefined) this.#call(callback, this.#reason);
  }

  /** Takes a registration back. */
  unregister(callback: ShutdownCallback): void;
  /** The same for what takes no reason. */
  unregister(callback: () => unknown): void;
  unregister(callback: ShutdownCallback): void {
    this.#callbacks.delete(callback);
  }

  /**
   * Begins the stop, as a signal does. Resolves when every callback has ended; callbacks are called
   * once however often this is. Called from inside a loop, a resource or a callback, which the stop waits
   * for, it resolves at once.
   */
  async trigger(reason: string | StopReason = "triggered by the program"): Promise<void> {
    this.#begin(typeof reason === "string" ? { kind: "trigger", text: reason } : reason);
    if (!isInside()) await Promise.all(this.#pending.values());
  }

  /**
   * Waits for the callbacks that are under way, other than `own`, and returns the names of those that
   * had not ended after `timeoutMs`. It does not wait for groups with `main()`: the process ends after
   * all of these, and each reports for itself.
   */
  async unfinished(timeoutMs: number, own?: ShutdownCallback): Promise<readonly string[]> {
    const { mainStops } = processShare();
    const others = [...this.#pending].filter(([callback]) =>
      callback !== own && !mainStops.has(callback)
    );
    if (others.length === 0) return [];
    await settlesWithin(Promise.all(others.map(([, ended]) => ended)), timeoutMs, this.#clock);
    return others.filter(([callback]) => this.#pending.has(callback)).map(([callback]) =>
      callback.name || "an anonymous function"
    );
  }

  #begin(reason: StopReason): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#stop.abort(new TerminatingError(`The process is stopping: ${reason.text}`));
    for (const callback of [...this.#callbacks]) this.#call(callback, reason);
  }

  /** Calls outside the caller's stack; whatever comes of it is contained. */
  #call(callback: ShutdownCallback, reason: StopReason): void {
    const called = runInside(this, async () => {
      await undefined;
      return await callback(reason);
    });
    const ended = called.then(() => {}, (error) => {
      const name = callback.name || "an anonymous function";
      this.#log.error(`a shutdown callback failed: ${name}`, { error });
    }).finally(() => this.#pending.delete(callback));
    this.#pending.set(callback, ended);
  }

  #listen(signals: readonly SignalName[]): void {
    try {
      for (const signal of new Set(signals)) {
        this.#removers.push(this.#runtime.onSignal(signal, () => this.#onSignal(signal)));
      }
    } catch (error) {
      this.#uninstall();
      throw error;
    }
  }

  #uninstall(): void {
    for (const remove of this.#removers.splice(0)) remove();
  }

  #onSignal(signal: SignalName): void {
    const now = this.#clock.monotonic();
    if (now - this.#lastSignalAt < SAME_SIGNAL_MS) return;
    this.#lastSignalAt = now;

    const interactive = signal === "SIGINT" && this.#runtime.interactive;
    const reason: StopReason = { kind: "signal", text: signal, signal, interactive };
    if (!this.triggered) this.#begin(reason);
    else if (this.#onSecondSignal === "ignore") return;
    else if (
      this.#onSecondSignal === "cancel" && !this.#force.signal.aborted && this.#pending.size > 0
    ) {
      this.#force.abort(reason);
    } else this.#runtime.exit(exitCodeOf(signal));
  }
}
