import type { Clock } from "../clock.ts";
import type { DrainReport } from "../lifecycle/drain_report.ts";
import type { Phase } from "../lifecycle/group_events.ts";
import type { Terminal } from "../runtime.ts";
import type { DrainView, Watchable } from "./drain_view.ts";

/** Work that ends is told together, at most this often. */
const TELL_MS = 1_000;

/**
 * A stop for whoever reads a log: one line of JSON for every change, from the first moment of the stop to
 * the report. A program that ends by itself says nothing.
 */
export class LineView implements DrainView {
  readonly #group: Watchable;
  readonly #terminal: Terminal;
  readonly #clock: Clock;
  readonly #removers: (() => void)[];
  #told = -1;
  #cancelLook = () => {};

  constructor(group: Watchable, terminal: Terminal, clock: Clock) {
    this.#group = group;
    this.#terminal = terminal;
    this.#clock = clock;
    this.#removers = [
      group.on("phase", ({ phase, reason }) => this.#onPhase(phase, reason)),
      group.on("loop", ({ loop, state }) => this.#tell("loop", { loop, state })),
    ];
    const { phase, stop } = group.health();
    if (stop !== undefined) this.#onPhase(phase, stop.reason);
  }

  end(report?: DrainReport): boolean {
    this.#cancelLook();
    for (const remove of this.#removers.splice(0)) remove();
    if (report === undefined) return false;
    const { outcome, exitCode, stopMs, timeoutMs, figures } = report;
    this.#tell("report", { outcome, exitCode, stopMs: Math.round(stopMs), timeoutMs, figures });
    return false;
  }

  #onPhase(phase: Phase, reason: string): void {
    this.#tell("phase", { phase, reason });
    this.#watchWork();
  }

  #watchWork(): void {
    this.#cancelLook();
    if (!this.#stopping) return;
    if (this.#inFlight !== this.#told) this.#tell("work", {});
    this.#cancelLook = this.#clock.schedule(TELL_MS, () => this.#watchWork());
  }

  get #stopping(): boolean {
    const { stop, phase } = this.#group.health();
    return stop !== undefined && stop.kind !== "finished" && phase !== "stopped";
  }

  get #inFlight(): number {
    return this.#group.loops.reduce((sum, { inFlight = [] }) => sum + inFlight.length, 0);
  }

  #tell(event: string, details: Readonly<Record<string, unknown>>): void {
    const { stop } = this.#group.health();
    if (stop === undefined || stop.kind === "finished") return;
    const inFlight = this.#told = this.#inFlight;
    const line = {
      at: new Date(this.#clock.now()).toISOString(),
      source: "lastcall",
      event,
      ...details,
      inFlight,
      remainingMs: Math.round(stop.remainingMs),
    };
    this.#terminal.write(`${JSON.stringify(line)}\n`);
  }
}
