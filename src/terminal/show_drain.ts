import { type Clock, systemClock } from "../clock.ts";
import type { DrainReport } from "../lifecycle/drain_report.ts";
import type { GroupEvents, Phase } from "../lifecycle/group_events.ts";
import type { HealthSnapshot } from "../lifecycle/health_snapshot.ts";
import type { Runnable } from "../lifecycle/runnable.ts";
import { knownRuntime, type Runtime, type Terminal } from "../runtime.ts";
import { frame, frameLines, PinnedArea } from "./_frame.ts";

/** The part of a `LoopGroup` that a view reads. */
export interface Watchable {
  /** The loops whose work in flight the view shows. */
  readonly loops: readonly Runnable[];
  /** Returns the current state of the group. */
  health(): HealthSnapshot;
  /** Calls `listener` for each event of this kind. Returns a function that removes it. */
  on<K extends keyof GroupEvents>(kind: K, listener: (event: GroupEvents[K]) => void): () => void;
}

/** A view of a stop on standard error. */
export interface DrainView {
  /**
   * Removes the view and restores the terminal. With a report, it also shows how the stop ended. Returns
   * true when it printed the whole report as text for a person.
   */
  end(report?: DrainReport): boolean;
}

/** Options of {@linkcode showDrain}. */
export interface DrainViewOptions {
  /** The runtime whose terminal is used. @default {the runtime of this process} */
  readonly runtime?: Runtime;
  /** The source of time. @default {systemClock} */
  readonly clock?: Clock;
}

/**
 * Shows on standard error how a group stops. On a terminal, the last lines show the phase, the time left
 * and the work in flight, while the program prints above them. Elsewhere, each change is one line of JSON.
 * `main()` calls this itself.
 *
 * @example
 * ```ts
 * import { LoopGroup, showDrain, StepLoop } from "@lastcall/lastcall";
 *
 * const group = new LoopGroup([new StepLoop("poller", ({ sleep }) => sleep(1_000))]);
 * const view = showDrain(group);
 * setTimeout(() => group.shutdown(), 50);
 * view.end(await group.run());
 * ```
 */
export function showDrain(group: Watchable, options: DrainViewOptions = {}): DrainView {
  const { runtime = knownRuntime(), clock = systemClock } = options;
  const terminal = runtime?.terminal;
  if (terminal === undefined) return { end: () => false };
  if (!terminal.interactive) return new JsonView(group, terminal, clock);
  const onExit = (listener: () => void) => runtime?.onExit?.(listener) ?? (() => {});
  return new LiveView(group, terminal, clock, onExit);
}

/** Fast enough for a smooth countdown. */
const REDRAW_MS = 100;
const MAX_LINES = 10;

/** Shows a stop in the last lines of the terminal and replaces them with the report at the end. */
class LiveView implements DrainView {
  readonly #group: Watchable;
  readonly #terminal: Terminal;
  readonly #clock: Clock;
  readonly #removers: (() => void)[];
  #area: PinnedArea | undefined;
  #cancelRedraw = () => {};
  #ended = false;

  constructor(
    group: Watchable,
    terminal: Terminal,
    clock: Clock,
    onExit: (listener: () => void) => () => void,
  ) {
    this.#group = group;
    this.#terminal = terminal;
    this.#clock = clock;
    this.#removers = [
      group.on("phase", () => this.#draw()),
      group.on("loop", () => this.#draw()),
      // The terminal must scroll normally again, also when the process exits in the middle of a stop.
      onExit(() => this.#hide()),
    ];
    this.#draw();
  }

  end(report?: DrainReport): boolean {
    this.#hide();
    if (report === undefined) return false;
    this.#terminal.write(`${report}\n`);
    return true;
  }

  #hide(): void {
    this.#ended = true;
    this.#cancelRedraw();
    this.#area?.release();
    this.#area = undefined;
    for (const remove of this.#removers.splice(0)) remove();
  }

  /** Draws the view while the group stops, and schedules the next drawing. */
  #draw(): void {
    this.#cancelRedraw();
    const health = this.#group.health();
    if (this.#ended || !isStopping(health) || health.phase === "stopped") return;
    const { loops } = this.#group;
    this.#area ??= new PinnedArea(this.#terminal, Math.min(MAX_LINES, frameLines(loops)));
    const { columns, color } = this.#terminal;
    this.#area.show(frame(loops, health, { columns, color, lines: this.#area.height }));
    this.#cancelRedraw = this.#clock.schedule(REDRAW_MS, () => this.#draw());
  }
}

/** The view writes at most one line per interval about finished work. */
const WORK_INTERVAL_MS = 1_000;

/** Writes one line of JSON for each change of a stop, and one for the report. */
class JsonView implements DrainView {
  readonly #group: Watchable;
  readonly #terminal: Terminal;
  readonly #clock: Clock;
  readonly #removers: (() => void)[];
  #lastInFlight = -1;
  #cancelCheck = () => {};

  constructor(group: Watchable, terminal: Terminal, clock: Clock) {
    this.#group = group;
    this.#terminal = terminal;
    this.#clock = clock;
    this.#removers = [
      group.on("phase", ({ phase, reason }) => this.#onPhase(phase, reason)),
      group.on("loop", ({ loop, state }) => this.#write("loop", { loop, state })),
    ];
    const { phase, stop } = group.health();
    if (stop !== undefined) this.#onPhase(phase, stop.reason);
  }

  end(report?: DrainReport): boolean {
    this.#cancelCheck();
    for (const remove of this.#removers.splice(0)) remove();
    if (report === undefined) return false;
    const { outcome, exitCode, stopMs, timeoutMs, counts } = report;
    this.#write("report", { outcome, exitCode, stopMs: Math.round(stopMs), timeoutMs, counts });
    return false;
  }

  #onPhase(phase: Phase, reason: string): void {
    this.#write("phase", { phase, reason });
    this.#checkWork();
  }

  #checkWork(): void {
    this.#cancelCheck();
    const health = this.#group.health();
    if (!isStopping(health) || health.phase === "stopped") return;
    if (this.#inFlight !== this.#lastInFlight) this.#write("work", {});
    this.#cancelCheck = this.#clock.schedule(WORK_INTERVAL_MS, () => this.#checkWork());
  }

  get #inFlight(): number {
    return this.#group.loops.reduce((sum, { inFlight = [] }) => sum + inFlight.length, 0);
  }

  #write(event: string, details: Readonly<Record<string, unknown>>): void {
    const health = this.#group.health();
    if (!isStopping(health)) return;
    const inFlight = this.#lastInFlight = this.#inFlight;
    const line = {
      at: new Date(this.#clock.now()).toISOString(),
      source: "lastcall",
      event,
      ...details,
      inFlight,
      remainingMs: Math.round(health.stop.remainingMs),
    };
    this.#terminal.write(`${JSON.stringify(line)}\n`);
  }
}

type Stopping = HealthSnapshot & Required<Pick<HealthSnapshot, "stop">>;

/** A program that ends by itself is not a stop: the views show nothing then. */
function isStopping(health: HealthSnapshot): health is Stopping {
  return health.stop !== undefined && health.stop.kind !== "finished";
}
