import type { Terminal } from "../runtime.ts";

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
