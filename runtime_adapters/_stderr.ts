/** More than this is dropped: a reader that has stopped reading must not use up the memory. */
const MOST_BYTES = 65_536;

/** How often standard error is tried again while it takes nothing: for one second in all. */
const RETRY_MS = 20;
const MOST_RETRIES = 50;

/** Writes some of the bytes and returns how many; 0 when standard error takes nothing now. */
type WriteSome = (bytes: Uint8Array) => number | Promise<number>;

/**
 * Standard error, written to without ever waiting for its reader. Text that does not fit into the pipe
 * is kept and written later; it is dropped when the reader takes nothing for a second.
 */
export class StderrQueue {
  readonly #writeSome: WriteSome;
  #texts: Uint8Array[] = [];
  #bytes = 0;
  #busy = false;
  #writing: Promise<void> = Promise.resolve();

  constructor(writeSome: WriteSome) {
    this.#writeSome = writeSome;
  }

  /** Text that fits is out when this returns, where the runtime can write synchronously. */
  write(text: string): void {
    const bytes = new TextEncoder().encode(text);
    if (this.#busy && this.#bytes + bytes.length > MOST_BYTES) return;
    this.#texts.push(bytes);
    this.#bytes += bytes.length;
    if (!this.#busy) this.#writing = this.#writeAll();
  }

  /** Resolves when everything was written or dropped. */
  async flush(): Promise<void> {
    while (this.#busy) await this.#writing;
  }

  async #writeAll(): Promise<void> {
    this.#busy = true;
    for (let retries = 0; this.#texts.length > 0 && retries <= MOST_RETRIES;) {
      const text = this.#texts[0]!;
      const result = this.#writeSome(text);
      // Awaiting a number would give way, and the process could end before the rest is written.
      const written = typeof result === "number" ? result : await result;
      if (written === 0) {
        retries++;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
        continue;
      }
      retries = 0;
      this.#bytes -= written;
      if (written < text.length) this.#texts[0] = text.subarray(written);
      else this.#texts.shift();
    }
    this.#texts = [];
    this.#bytes = 0;
    this.#busy = false;
  }
}
