/** Text beyond this is dropped, so that a reader that has stopped cannot use up the memory. */
const MAX_BYTES = 65_536;

/** A pipe that accepts nothing is retried for one second. */
const RETRY_MS = 20;
const MAX_RETRIES = 50;

/** Writes some of the bytes and returns how many; 0 when standard error accepts none now. */
type WriteSome = (bytes: Uint8Array) => number | Promise<number>;

/**
 * Writes to standard error without waiting for its reader. Text that does not fit into the pipe is
 * kept and written later. It is dropped when the pipe accepts nothing for a second.
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

  /** Queues text. If the runtime writes synchronously, text that fits is written on return. */
  write(text: string): void {
    const bytes = new TextEncoder().encode(text);
    if (this.#busy && this.#bytes + bytes.length > MAX_BYTES) return;
    this.#texts.push(bytes);
    this.#bytes += bytes.length;
    if (!this.#busy) this.#writing = this.#writeAll();
  }

  /** Resolves when all text is written or dropped. */
  async flush(): Promise<void> {
    while (this.#busy) await this.#writing;
  }

  async #writeAll(): Promise<void> {
    this.#busy = true;
    for (let retries = 0; this.#texts.length > 0 && retries <= MAX_RETRIES;) {
      const text = this.#texts[0]!;
      const result = this.#writeSome(text);
      // Awaiting a number would yield, and the process could exit before the rest is written.
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
