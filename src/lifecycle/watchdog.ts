import { checkInterval } from "../_checks.ts";
import { contain, settlesWithin } from "../_promises.ts";
import { type Cancel, type Clock, systemClock } from "../clock.ts";
import { flushLibraryLog, safeLog, useFallbackLog } from "../library_log.ts";
import { consoleLog, type Log } from "../log.ts";
import { type BeatRecord, defaultRuntime, type EventLoopWatch, type Runtime } from "../runtime.ts";
import type { Resource } from "./resources.ts";

/**
 * The heartbeat of one loop. The loop beats at every step; a watchdog checks the age.
 *
 * @example
 * ```ts
 * import { Heartbeat } from "@lastcall/lastcall/lifecycle";
 * import { VirtualClock } from "@lastcall/lastcall/testing";
 *
 * const clock = new VirtualClock();
 * const heartbeat = new Heartbeat(clock);
 * await clock.advance(1_500);
 * console.assert(heartbeat.ageMs === 1_500);
 * heartbeat.beat();
 * console.assert(heartbeat.ageMs === 0);
 * ```
 */
export class Heartbeat {
  readonly #clock: Clock;
  #last: number;

  /** Creates a heartbeat with an age of 0. */
  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
    this.#last = clock.monotonic();
  }

  /** Records a beat, which resets the age to 0. Pass the time of the monotonic clock if it has just been read. */
  beat(now: number = this.#clock.monotonic()): void {
    this.#last = now;
  }

  /** Keeps the age at 0 for `ms` milliseconds, while the loop waits on purpose. */
  rest(ms: number = Infinity): void {
    this.#last = this.#clock.monotonic() + ms;
  }

  /** Milliseconds since the last beat or the end of the rest; 0 while it rests. */
  get ageMs(): number {
    return Math.max(0, this.#clock.monotonic() - this.#last);
  }
}

/** Options of {@linkcode Watchdog}. */
export interface WatchdogOptions {
  /** The watchdog ends the process after this long without a heartbeat. @default {720_000} */
  readonly thresholdMs?: number;
  /** How often to check; at most half the threshold. @default {60_000} */
  readonly intervalMs?: number;
  /** Called with the stalled loops just before the process ends. */
  readonly onStall?: (stalled: readonly BeatRecord[]) => void;
  /** Provides the thread and ends the process. @default {the runtime of this process} */
  readonly runtime?: Runtime;
  /** The source of time and timers. @default {systemClock} */
  readonly clock?: Clock;
  /** Where the names and ages of stalled loops are logged before the process ends. @default {libraryLog} */
  readonly log?: Log;
}

/** The default of {@linkcode WatchdogOptions.thresholdMs}, longer than any reasonable step. */
export const DEFAULT_WATCHDOG_THRESHOLD_MS = 720_000;

/** The default of {@linkcode WatchdogOptions.intervalMs}. */
export const DEFAULT_WATCHDOG_INTERVAL_MS = 60_000;

/** How long the end of the process waits for the reader of standard error. */
const LAST_WRITE_TIMEOUT_MS = 1_000;

/**
 * Ends the process when a loop has no heartbeat or the event loop is blocked for too long. A supervisor
 * can then start a new process, and the messages are delivered again when their leases expire.
 *
 * This class checks the loops. A separate thread checks the event loop, because nothing here runs while
 * it is blocked. Time in which the process was suspended does not count.
 */
export class Watchdog implements Resource {
  /** Its name in reports. */
  readonly name = "watchdog";
  readonly #thresholdMs: number;
  readonly #intervalMs: number;
  readonly #onStall: (stalled: readonly BeatRecord[]) => void;
  readonly #runtime: Runtime | undefined;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #watched = new Map<string, Heartbeat>();
  #thread: EventLoopWatch | undefined;
  #cancelTick: Cancel | undefined;
  #beatQueued = false;
  #awakeSince = 0;
  #checkedAt = 0;

  /** Checks the options. Nothing is watched before `start`. */
  constructor(options: WatchdogOptions = {}) {
    this.#thresholdMs = checkInterval(
      "watchdogThresholdMs",
      options.thresholdMs ?? DEFAULT_WATCHDOG_THRESHOLD_MS,
    );
    this.#intervalMs = Math.min(
      checkInterval("watchdogIntervalMs", options.intervalMs ?? DEFAULT_WATCHDOG_INTERVAL_MS),
      this.#thresholdMs / 2,
    );
    this.#onStall = options.onStall ?? (() => {});
    this.#runtime = options.runtime;
    this.#clock = options.clock ?? systemClock;
    this.#log = safeLog(options.log);
  }

  /** Watches a loop until `unwatch`. */
  watch(name: string, heartbeat: Heartbeat): void {
    this.#watched.set(name, heartbeat);
    this.#beatSoon();
  }

  /** Stops watching a loop. Call it when the loop has ended. */
  unwatch(name: string): void {
    this.#watched.delete(name);
  }

  /** Starts the checks and the thread. */
  start(): void {
    if (this.#cancelTick !== undefined) return;
    this.#awakeSince = this.#checkedAt = this.#clock.monotonic();
    this.#thread = this.#startThread();
    this.#tick();
  }

  /** Stops the checks and the thread. */
  async stop(): Promise<void> {
    this.#cancelTick?.();
    this.#cancelTick = undefined;
    const thread = this.#thread;
    this.#thread = undefined;
    await thread?.stop();
  }

  /** Calls `stop`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  get #process(): Runtime {
    return this.#runtime ?? defaultRuntime();
  }

  /** Starts the thread. A process without the permission for threads is watched without one. */
  #startThread(): EventLoopWatch | undefined {
    const options = { thresholdMs: this.#thresholdMs, intervalMs: this.#intervalMs };
    try {
      return this.#process.watchEventLoop?.(options);
    } catch (error) {
      this.#log.warn(
        "The watchdog cannot start its thread and will not notice a blocked event loop",
        { error },
      );
      return undefined;
    }
  }

  #tick(): void {
    this.#cancelTick = this.#clock.schedule(this.#intervalMs, () => {
      this.#check();
      if (this.#cancelTick !== undefined) this.#tick();
    });
    this.#thread?.beat(this.#beats());
  }

  /** Sends the names to the thread before a loop can block, once for all loops that begin now. */
  #beatSoon(): void {
    if (this.#beatQueued) return;
    this.#beatQueued = true;
    queueMicrotask(() => {
      this.#beatQueued = false;
      this.#thread?.beat(this.#beats());
    });
  }

  #check(): void {
    const now = this.#clock.monotonic();
    if (now - this.#checkedAt > 2 * this.#intervalMs) this.#awakeSince = now;
    this.#checkedAt = now;
    if (now - this.#awakeSince <= this.#thresholdMs) return;

    const stalled = this.#beats().filter(({ ageMs }) => ageMs > this.#thresholdMs);
    if (stalled.length === 0) return;
    const names = stalled.map(({ name, ageMs }) => `"${name}" (${Math.round(ageMs)} ms)`);
    // The reason must be visible even where LogTape is not configured.
    const restoreLog = useFallbackLog(consoleLog);
    this.#log.error(`no sign of life from ${names.join(", ")}: ending the process`, { stalled });
    flushLibraryLog();
    restoreLog();
    contain(() => this.#onStall(stalled), (error) => {
      this.#log.error("onStall failed", { error });
    });
    this.#end();
  }

  /** Ends the process when standard error is flushed or the flush has timed out. */
  #end(): void {
    const written = this.#process.terminal?.flush?.();
    if (written === undefined) return this.#process.kill();
    this.#cancelTick = undefined; // no further check
    settlesWithin(written, LAST_WRITE_TIMEOUT_MS, this.#clock).then(() => this.#process.kill());
  }

  #beats(): readonly BeatRecord[] {
    return Array.from(this.#watched, ([name, { ageMs }]) => ({ name, ageMs }));
  }
}
