import type { Log } from "../../log.ts";
import { isMissing, NoAnswerError } from "./_errors.ts";
import type { JetStream } from "./_jetstream.ts";
import type { Names } from "./_names.ts";
import { type Found, setUp, type SetUpOptions } from "./_set_up.ts";

/** What a site is made with. */
export interface SiteOptions extends SetUpOptions {
  readonly mailbox: string;
  readonly names: Names;
  readonly jetStream: JetStream;
  readonly log: Log;
  /** The consumer is another one: no verdict about earlier deliveries is heard any more. */
  readonly onChange: () => void;
}

/**
 * The streams and the consumer of one mailbox: `unknown ─▶ found`, and back to `unknown` when a call shows
 * that something is gone, or gets no answer. Every call looks while they are unknown, and makes what is
 * missing.
 */
export class Site {
  readonly #options: SiteOptions;
  #finding: Promise<Found> | undefined;
  #consumer: string | undefined;

  constructor(options: SiteOptions) {
    this.#options = options;
  }

  /** The consumer that was found last. */
  get consumer(): string {
    return this.#consumer ?? "";
  }

  /** Finds everything, or makes it. */
  open(): Promise<Found> {
    return this.#finding ??= this.#find();
  }

  /** Makes a call, and makes it once more when something was gone. */
  async use<T>(call: (found: Found) => Promise<T>): Promise<T> {
    const finding = this.open();
    const found = await finding;
    try {
      return await call(found);
    } catch (error) {
      if (isMissing(error) || error instanceof NoAnswerError) this.#doubt(finding);
      if (!isMissing(error)) throw error;
    }
    return await call(await this.open());
  }

  /**
   * Tells whether a verdict failed because the consumer that it went to is gone for good. Looks at the
   * server where the error leaves that open.
   */
  async hasLost(consumer: string, error: unknown): Promise<boolean> {
    if (error instanceof NoAnswerError) this.#doubt(this.#finding);
    if (!isMissing(error)) return false;
    if (consumer === this.#consumer) this.#doubt(this.#finding);
    return (await this.open()).consumer !== consumer;
  }

  /** The next call looks, unless another one did since. */
  #doubt(finding: Promise<Found> | undefined): void {
    if (this.#finding === finding) this.#finding = undefined;
  }

  async #find(): Promise<Found> {
    const { mailbox, names, jetStream, log, onChange } = this.#options;
    try {
      const found = await setUp(mailbox, names, jetStream, this.#options);
      const before = this.#consumer;
      this.#consumer = found.consumer;
      if (before === undefined) return found;
      if (before !== found.consumer) onChange();
      for (const part of found.made) {
        const harm = part === "stream" ? ", with all messages that were in it" : "";
        log.warn(`the ${part} of "${mailbox}" was gone${harm}; it was made again`);
      }
      return found;
    } catch (error) {
      this.#finding = undefined;
      throw error;
    }
  }
}
