import type { TraceContext } from "../telemetry/trace_context.ts";
import type { DeadLetterReason, Message, NackOptions } from "../mailbox/mailbox.ts";

/** A message whose body is what a schema made of it. */
export class ValidatedMessage<T, R> implements Message<T, R> {
  readonly body: T;
  readonly #message: Message<unknown, R>;

  constructor(message: Message<unknown, R>, body: T) {
    this.#message = message;
    this.body = body;
  }

  get id(): string {
    return this.#message.id;
  }

  get receiptHandle(): string {
    return this.#message.receiptHandle;
  }

  get deliveryCount(): number {
    return this.#message.deliveryCount;
  }

  get enqueuedAt(): number {
    return this.#message.enqueuedAt;
  }

  get replyTo(): string | undefined {
    return this.#message.replyTo;
  }

  get trace(): TraceContext | undefined {
    return this.#message.trace;
  }

  get checkpoint(): unknown {
    return this.#message.checkpoint;
  }

  get finalized(): boolean {
    return this.#message.finalized;
  }

  acknowledge(): Promise<void> {
    return this.#message.acknowledge();
  }

  nack(options?: NackOptions): Promise<void> {
    return this.#message.nack(options);
  }

  release(): Promise<void> {
    return this.#message.release();
  }

  bury(reason: DeadLetterReason): Promise<void> {
    return this.#message.bury(reason);
  }

  extendVisibility(ms: number): Promise<void> {
    return this.#message.extendVisibility(ms);
  }

  saveCheckpoint(progress: unknown): Promise<void> {
    return this.#message.saveCheckpoint(progress);
  }

  reply(body: R): Promise<string> {
    return this.#message.reply(body);
  }
}
