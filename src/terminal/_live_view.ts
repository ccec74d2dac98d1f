import type { Clock } from "../clock.ts";
import type { DrainReport } from "../lifecycle/drain_report.ts";
import type { Terminal } from "../runtime.ts";
import { frame, frameLines } from "./_frame.ts";
import { PinnedArea } from "./_pinned_area.ts";
import type { DrainView, Watchable } from "./drain_view.ts";

/** Often enough for a person to see time pass. */
const REDRAW_MS = 100;
const MOST_LINES = 10;

/**
 * A stop that a person watches: the last lines of the terminal show it, from its first moment to its
 * end, and the report takes their place.
 */
export class LiveView implements DrainView {
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
      group.on("phase", () => this.#look()),
      group.on("loop", () => this.#look()),
      // However the process ends, its terminal scrolls as before.
      onExit(() => this.#hide()),
    ];
    this.#look();
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

  /** Draws where a stop is under way, and again a moment later. */
  #look(): void {
    this.#cancelRedraw();
    const { stop, phase } = this.#group.health();
    if (this.#ended || stop === undefined || stop.kind === "finished" || phase === "stopped") {
      return;
    }
    this.#area ??= new PinnedArea(
      this.#terminal,
      Math.min(MOST_LINES, frameLines(this.#group)),
    );
    const { columns, color } = this.#terminal;
    this.#area.show(frame(this.#group, { columns, color, lines: this.#area.height }));
    this.#cancelRedraw = this.#clock.schedule(REDRAW_MS, () => this.#look());
  }
}
