import type { Phase } from "../lifecycle/group_events.ts";
import type { HealthSnapshot } from "../lifecycle/health_snapshot.ts";
import type { Runnable } from "../lifecycle/runnable.ts";
import type { Terminal } from "../runtime.ts";
import { bar, fit, oneLine, type Paint, painter, seconds, type Style } from "./text.ts";

/** The space for a frame, and whether the terminal shows colours. */
export interface FrameSize {
  readonly columns: number;
  readonly lines: number;
  readonly color: boolean;
}

const PHASE_STYLES: Readonly<Record<Phase, Style>> = {
  starting: "cyan",
  running: "green",
  unready: "yellow",
  draining: "yellow",
  cancelling: "red",
  stopped: "dim",
};

/** A shorter bar shows too little. */
const MIN_BAR_COLUMNS = 8;
const MAX_BAR_COLUMNS = 40;

/** A piece of work in flight, with the name of its loop. */
interface Work {
  readonly loop: string;
  readonly id: string;
  readonly ageMs: number;
}

/** Returns the lines that show a stop: phase and time left, work in flight, and a hint about Ctrl+C. */
export function frame(
  loops: readonly Runnable[],
  health: HealthSnapshot,
  size: FrameSize,
): readonly string[] {
  const paint = painter(size.color);
  const works = oldestFirst(loops);
  const room = Math.max(0, size.lines - 2);
  const shown = works.slice(0, works.length > room ? Math.max(0, room - 1) : room);
  const more = works.length - shown.length;
  return [
    headline(health, works.length, size.columns, paint),
    ...table(shown, size.columns),
    ...(more > 0 && room > 0 ? [`  … and ${more} more`] : []),
    paint("dim", fit(hint(health), size.columns)),
  ].slice(0, size.lines);
}

/** Returns how many lines a frame needs to show all work in flight. */
export function frameLines(loops: readonly Runnable[]): number {
  return oldestFirst(loops).length + 2;
}

function headline(
  { phase, stop }: HealthSnapshot,
  inFlight: number,
  columns: number,
  paint: Paint,
): string {
  const left = stop === undefined
    ? ""
    : stop.timeoutMs === Infinity
    ? "no deadline"
    : `${seconds(stop.remainingMs)} left of ${seconds(stop.timeoutMs)}`;
  const tail = [left, `${inFlight} in flight`, oneLine(stop?.reason ?? "")].filter(Boolean)
    .join(" · ");
  const room = Math.min(MAX_BAR_COLUMNS, columns - phase.length - tail.length - 3);
  const share = stop === undefined || stop.timeoutMs === Infinity
    ? 1
    : stop.remainingMs / (stop.timeoutMs || 1);
  const name = paint("bold", paint(PHASE_STYLES[phase], phase));
  if (room < MIN_BAR_COLUMNS) return `${name} ${fit(tail, columns - phase.length - 1)}`;
  return `${name} ${paint(PHASE_STYLES[phase], bar(share, room))} ${tail}`;
}

/** The oldest work comes first because it is what the stop waits for. */
function oldestFirst(loops: readonly Runnable[]): readonly Work[] {
  return loops
    .flatMap(({ name: loop, inFlight = [] }) => inFlight.map((work) => ({ loop, ...work })))
    .sort((a, b) => b.ageMs - a.ageMs);
}

function table(works: readonly Work[], columns: number): readonly string[] {
  const rows = works.map(({ loop, id, ageMs }) =>
    [oneLine(loop), oneLine(id), seconds(ageMs)] as const
  );
  const widest = (column: 0 | 1) => Math.max(0, ...rows.map((row) => [...row[column]].length));
  const [loopWidth, idWidth] = [widest(0), Math.min(widest(1), columns - widest(0) - 14)];
  return rows.map(([loop, id, age]) => {
    return fit(`  ${loop.padEnd(loopWidth)}  ${fit(id, idWidth).padEnd(idWidth)}  ${age}`, columns);
  });
}

function hint({ phase, stop }: HealthSnapshot): string {
  if (stop?.kind !== "signal") return "finishing work in flight";
  return phase === "cancelling"
    ? "press Ctrl+C again to exit now"
    : "press Ctrl+C again to cancel work in flight";
}

const SAVE_CURSOR = "\x1b7";
const RESTORE_CURSOR = "\x1b8";
const CLEAR_LINE = "\x1b[2K";
const CLEAR_BELOW = "\x1b[J";
const RESET_SCROLL_REGION = "\x1b[r";
/** Moves down one line and scrolls at the bottom. It keeps the column, so a partly printed line continues. */
const ONE_DOWN = "\x1bD";

/**
 * Reserves the last lines of a terminal for a view. The terminal scrolls only the lines above, so the
 * program keeps printing there, and nothing intercepts or overwrites its output.
 */
export class PinnedArea {
  readonly #terminal: Terminal;
  readonly #wanted: number;
  #rows = 0;
  #height = 0;

  /** Asks for `wanted` lines. A small terminal gives fewer. */
  constructor(terminal: Terminal, wanted: number) {
    this.#terminal = terminal;
    this.#wanted = wanted;
  }

  /** The number of lines at the current size of the terminal. */
  get height(): number {
    return this.#heightFor(this.#terminal.rows);
  }

  /** Draws the lines at the bottom. Lines that do not fit are not drawn. */
  show(lines: readonly string[]): void {
    const { rows } = this.#terminal;
    const begin = rows === this.#rows ? "" : this.#pin(rows);
    const first = rows - this.#height + 1;
    const blank = Math.max(0, this.#height - lines.length);
    const drawn = Array.from({ length: this.#height }, (_, at) => {
      return `${moveTo(first + at)}${CLEAR_LINE}${lines[at - blank] ?? ""}`;
    });
    // One write, so that no output of the program can come between the escape sequences.
    this.#terminal.write(`${begin}${SAVE_CURSOR}${drawn.join("")}${RESTORE_CURSOR}`);
  }

  /** Clears the lines and lets the whole terminal scroll again. */
  release(): void {
    if (this.#rows === 0) return;
    const first = this.#rows - this.#height + 1;
    this.#rows = 0;
    this.#terminal.write(
      `${SAVE_CURSOR}${RESET_SCROLL_REGION}${moveTo(first)}${CLEAR_BELOW}${RESTORE_CURSOR}`,
    );
  }

  /** Makes room below the cursor and sets the scroll region, which moves the cursor: save and restore it. */
  #pin(rows: number): string {
    const isFirst = this.#rows === 0;
    this.#rows = rows;
    this.#height = this.#heightFor(rows);
    const reset = isFirst ? "" : `${SAVE_CURSOR}${RESET_SCROLL_REGION}${RESTORE_CURSOR}`;
    const room = ONE_DOWN.repeat(this.#height) + `\x1b[${this.#height}A`;
    const region = `\x1b[1;${rows - this.#height}r`;
    return `${reset}${room}${SAVE_CURSOR}${region}${RESTORE_CURSOR}`;
  }

  /** Leaves at least half of the terminal, and at least two lines, to the program. */
  #heightFor(rows: number): number {
    return Math.max(1, Math.min(this.#wanted, Math.floor(rows / 2), rows - 2));
  }
}

function moveTo(row: number): string {
  return `\x1b[${row};1H`;
}
