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
import { processShare } from "./process_share.ts";
import type { StopReason } from "./group_events.ts";

/** Called once when the stop begins. The stop waits for the returned promise. */
export type ShutdownCallback = (reason: StopReason) => unknown;

/** What a second signal does: cancel work in flight, end the process, or nothing. */
export type SecondSignal = "cancel" | "exit" | "ignore";

/** Options of {@linkcode ShutdownCoordinator.install}. Only the first installation uses them. */
export interface InstallOptions {
  /** The signals that request a stop. @default {SIGTERM and SIGINT, where the platform has them} */
  readonly signals?: readonly SignalName[];
  /** Provides the signals. @default {the runtime of this process} */
  readonly runtime?: Runtime;
  /** What a second signal does; with `cancel`, a third ends the process. @default {"cancel"} */
  readonly onSecondSignal?: SecondSignal;
  /** Distinguishes a repeated signal from a second one. @default {systemClock} */
  readonly clock?: Clock;
  /** Where errors of callbacks are logged. @default {libraryLog} */
  readonly log?: Log;
}

/** The coordinator that listens to the signals of the process, and who needs it. */
interface Installation {
  readonly coordinator: ShutdownCoordinator;
  readonly uninstall: () => void;
  /** The number of runs that need it. */
  holders: number;
  /** True when it stays although no run needs it. */
  permanent: boolean;
}

/** One Ctrl+C often arrives twice, also as another signal. Within this time it counts once. */
const SAME_SIGNAL_MS = 200;

/**
 * Turns the signals of the process into one stop. A process has one coordinator, even where several
 * copies of the package are loaded.
 *
 * ```text
 * waiting ── first signal, trigger() ──▶ triggered ── second signal ──▶ forced ── third ──▶ exit
 * ```
 *
 * A callback that is registered after the stop has begun is called immediately.
 *
 * @example
 * ```ts
 * import { ShutdownCoordinator, StepLoop } from "@lastcall/lastcall";
 *
 * const loop = new StepLoop("worker", ({ sleep }) => sleep(1_000));
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

  /** Starts listening, unless installed already, and returns the coordinator of the process. */
  static install(options: InstallOptions = {}): ShutdownCoordinator {
    const installation = ShutdownCoordinator.#installed(options);
    installation.permanent = true;
    return installation.coordinator;
  }

  /**
   * Installs the coordinator until `release` is called. When the last holder has called it and no stop has
   * begun, the signals have their default effect again.
   */
  static hold(options: InstallOptions = {}): { coordinator: ShutdownCoordinator; release(): void } {
    const installation = ShutdownCoordinator.#installed(options);
    const { coordinator } = installation;
    const share = processShare<Installation>(options.runtime);
    installation.holders++;
    return {
      coordinator,
      release() {
        installation.holders--;
        if (installation.holders > 0 || installation.permanent || coordinator.triggered) return;
        if (share.installation === installation) uninstall(share);
      },
    };
  }

  /** The installed coordinator, if there is one. */
  static get(): ShutdownCoordinator | undefined {
    return processShare<Installation>().installation?.coordinator;
  }

  /** Removes the signal listeners and forgets the coordinator. */
  static reset(): void {
    uninstall(processShare<Installation>());
  }

  static #installed(options: InstallOptions): Installation {
    checkOneOf("onSecondSignal", options.onSecondSignal ?? "cancel", ["cancel", "exit", "ignore"]);
    for (const signal of options.signals ?? []) {
      checkOneOf("signal", signal, Object.keys(SIGNAL_NUMBERS) as SignalName[]);
    }
    const share = processShare<Installation>(options.runtime);
    if (share.installation !== undefined) return share.installation;
    const coordinator = new ShutdownCoordinator(options);
    coordinator.#listen(options.signals ?? coordinator.#runtime.stopSignals);
    const uninstall = () => coordinator.#uninstall();
    return share.installation = { coordinator, uninstall, holders: 0, permanent: false };
  }

  /** True once a signal or `trigger` has begun the stop. */
  get triggered(): boolean {
    return this.#stop.signal.aborted;
  }

  /** Why the stop began. */
  get reason(): StopReason | undefined {
    return this.#reason;
  }

  /** Aborts when the stop begins, with a {@linkcode TerminatingError} as its reason. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** Aborts when a second signal forces the stop. Its reason is the {@linkcode StopReason}. */
  get forceSignal(): AbortSignal {
    return this.#force.signal;
  }

  /** The number of registered callbacks. */
  get registered(): number {
    return this.#callbacks.size;
  }

  /**
   * Registers a callback for the beginning of the stop, and calls it immediately if the stop has begun.
   * Callbacks are called in the order of registration, each once, however often it is registered. With
   * `endsProcess` the process ends after it, as after a group that runs with `main()`: `unfinished` does
   * not wait for it.
   */
  register(callback: ShutdownCallback, options?: { readonly endsProcess?: boolean }): void;
  /** Registers a function that takes no reason, such as `loop.shutdown`. */
  register(callback: () => unknown): void;
  register(
    callback: ShutdownCallback,
    { endsProcess = false }: { readonly endsProcess?: boolean } = {},
  ): void {
    if (typeof callback !== "function") {
      throw new TypeError(`Invalid shutdown callback: expected a function, got ${show(callback)}`);
    }
    if (this.#callbacks.has(callback)) return;
    if (endsProcess) processShare(this.#runtime).mainStops.add(callback);
    this.#callbacks.add(callback);
    if (this.#reason !== undefined) this.#call(callback, this.#reason);
  }

  /** Removes a callback. */
  unregister(callback: ShutdownCallback): void;
  /** Removes a function that takes no reason. */
  unregister(callback: () => unknown): void;
  unregister(callback: ShutdownCallback): void {
    this.#callbacks.delete(callback);
    processShare(this.#runtime).mainStops.delete(callback);
  }

  /**
   * Begins the stop, as a signal does. Resolves when every callback has ended. A second call does not call
   * the callbacks again. Called from inside a loop, a resource or a callback, it resolves immediately,
   * because the stop waits for its caller.
   */
  async trigger(reason: string | StopReason = "triggered by the program"): Promise<void> {
    this.#begin(typeof reason === "string" ? { kind: "trigger", text: reason } : reason);
    if (!isInside()) await Promise.all(this.#pending.values());
  }

  /**
   * Waits for the running callbacks except `own`, and returns the names of those that had not ended after
   * `timeoutMs`. It does not wait for groups that run with `main()`: the process ends after all of these,
   * and each writes its own report.
   */
  async unfinished(timeoutMs: number, own?: ShutdownCallback): Promise<readonly string[]> {
    const { mainStops } = processShare(this.#runtime);
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

  /** Calls the callback asynchronously, and logs its error. */
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

/** Removes the signal listeners of a process and forgets its coordinator. */
function uninstall(share: { installation: Installation | undefined }): void {
  share.installation?.uninstall();
  share.installation = undefined;
}
