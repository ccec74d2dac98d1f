import type { Log } from "../../log.ts";
import { isMissing, NoAnswerError } from "./_errors.ts";
import type { JetStream } from "./_jetstream.ts";
import type { Names } from "./_names.ts";
import { setUp, type SetUpOptions, type SetUpResult } from "./_set_up.ts";

export interface StreamsOptions extends SetUpOptions {
  readonly mailbox: string;
  readonly names: Names;
  readonly jetStream: JetStream;
  readonly log: Log;
  /** Called when the consumer was replaced. Acks for earlier deliveries have no effect then. */
  readonly onChange: () => void;
}

/**
 * The streams and the consumer of one mailbox: `unknown ─▶ found`. They become `unknown` again when a
 * call reports one as missing or gets no answer. A call in state `unknown` finds them first and creates
 * missing ones.
 */
export class Streams {
  readonly #options: StreamsOptions;
  #settingUp: Promise<SetUpResult> | undefined;
  #consumer: string | undefined;

  constructor(options: StreamsOptions) {
    this.#options = options;
  }

  /** The consumer that was found last. */
  get consumer(): string {
    return this.#consumer ?? "";
  }

  /** Finds or creates the streams and the consumer. */
  ensure(): Promise<SetUpResult> {
    return this.#settingUp ??= this.#setUp();
  }

  /** Runs a call, and repeats it once when a stream or the consumer was missing. */
  async use<T>(call: (found: SetUpResult) => Promise<T>): Promise<T> {
    const settingUp = this.ensure();
    const found = await settingUp;
    try {
      return await call(found);
    } catch (error) {
      if (isMissing(error) || error instanceof NoAnswerError) this.#invalidate(settingUp);
      if (!isMissing(error)) throw error;
    }
    return await call(await this.ensure());
  }

  /**
   * Returns true when an ack failed because its consumer no longer exists. Asks the server if the error
   * does not tell.
   */
  async hasLostConsumer(consumer: string, error: unknown): Promise<boolean> {
    if (error instanceof NoAnswerError) this.#invalidate(this.#settingUp);
    if (!isMissing(error)) return false;
    if (consumer === this.#consumer) this.#invalidate(this.#settingUp);
    return (await this.ensure()).consumer !== consumer;
  }

  /** Makes the next call look for the streams, unless another call has done so since. */
  #invalidate(settingUp: Promise<SetUpResult> | undefined): void {
    if (this.#settingUp === settingUp) this.#settingUp = undefined;
  }

  async #setUp(): Promise<SetUpResult> {
    const { mailbox, names, jetStream, log, onChange } = this.#options;
    try {
      const found = await setUp(mailbox, names, jetStream, this.#options);
      const before = this.#consumer;
      this.#consumer = found.consumer;
      if (before === undefined) return found;
      if (before !== found.consumer) onChange();
      for (const part of found.created) {
        const loss = part === "stream" ? ", with all its messages" : "";
        log.warn(`the ${part} of "${mailbox}" was missing${loss}; it was created again`);
      }
      return found;
    } catch (error) {
      this.#settingUp = undefined;
      throw error;
    }
  }
}
