import type { Terminal } from "../runtime.ts";

const SAVE_CURSOR = "\x1b7";
const RESTORE_CURSOR = "\x1b8";
const CLEAR_LINE = "\x1b[2K";
const CLEAR_BELOW = "\x1b[J";
const SCROLL_EVERYWHERE = "\x1b[r";
/** Scrolls at the last line, and stays in its column: a line that was begun goes on. */
const ONE_DOWN = "\x1bD";

/**
 * The last lines of a terminal, kept for a view while the program goes on printing above them: the
 * terminal itself scrolls only what is above. Nothing of the program is intercepted or overwritten.
 */
export class PinnedArea {
  readonly #terminal: Terminal;
  readonly #wanted: number;
  #rows = 0;
  #height = 0;

  /** Wants so many lines; it gets fewer where the terminal is small. */
  constructor(terminal: Terminal, wanted: number) {
    this.#terminal = terminal;
    this.#wanted = wanted;
  }

  /** How many lines it has. */
  get height(): number {
    return this.#heightFor(this.#terminal.rows);
  }

  /** Shows these lines at the bottom, the first ones where there are too many. */
  show(lines: readonly string[]): void {
    const { rows } = this.#terminal;
    const begin = rows === this.#rows ? "" : this.#pin(rows);
    const first = rows - this.#height + 1;
    const blank = Math.max(0, this.#height - lines.length);
    const drawn = Array.from({ length: this.#height }, (_, at) => {
      return `${moveTo(first + at)}${CLEAR_LINE}${lines[at - blank] ?? ""}`;
    });
    // In one piece, so that nothing can come between.
    this.#terminal.write(`${begin}${SAVE_CURSOR}${drawn.join("")}${RESTORE_CURSOR}`);
  }

  /** Gives the lines back. */
  release(): void {
    if (this.#rows === 0) return;
    const first = this.#rows - this.#height + 1;
    this.#rows = 0;
    this.#terminal.write(
      `${SAVE_CURSOR}${SCROLL_EVERYWHERE}${moveTo(first)}${CLEAR_BELOW}${RESTORE_CURSOR}`,
    );
  }

  /** Makes room below the cursor, then keeps it. Setting the region moves the cursor, so it is saved. */
  #pin(rows: number): string {
    const again = this.#rows === 0 ? "" : SCROLL_EVERYWHERE;
    this.#rows = rows;
    this.#height = this.#heightFor(rows);
    const room = ONE_DOWN.repeat(this.#height) + `\x1b[${this.#height}A`;
    const region = `\x1b[1;${rows - this.#height}r`;
    return again === ""
      ? `${room}${SAVE_CURSOR}${region}${RESTORE_CURSOR}`
      : `${SAVE_CURSOR}${again}${RESTORE_CURSOR}${room}${SAVE_CURSOR}${region}${RESTORE_CURSOR}`;
  }

  /** The program keeps half of the terminal, and two lines at least. */
  #heightFor(rows: number): number {
    return Math.max(1, Math.min(this.#wanted, Math.floor(rows / 2), rows - 2));
  }
}

function moveTo(row: number): string {
  return `\x1b[${row};1H`;
}
