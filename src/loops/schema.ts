import type { TraceContext } from "../telemetry/trace_context.ts";
import type { DeadLetterReason, Message, NackOptions, Settlement } from "../mailbox/mailbox.ts";

/** A validator that implements the Standard Schema specification. */
export interface StandardSchema<Output = unknown> {
  /** The members that the specification requires. */
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
  };
}

/** The result of a validation: a value, or issues. */
export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

/** One violation of the schema. */
export interface SchemaIssue {
  /** A description for people. */
  readonly message: string;
  /** The path in the body; missing for the body as a whole. */
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** Describes the issues in one line, each with its path. */
export function describeIssues(issues: readonly SchemaIssue[]): string {
  return issues.map(({ message, path = [] }) => {
    const place = path.map((part) => String(typeof part === "object" ? part.key : part)).join(".");
    return place === "" ? message : `${place}: ${message}`;
  }).join("; ");
}

/** A message with the body that the schema returned. */
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

  /** The mark of the lease is on the original message. */
  get leased(): boolean {
    return (this.#message as { leased?: boolean }).leased === true;
  }

  set leased(leased: boolean) {
    (this.#message as { leased?: boolean }).leased = leased;
  }

  get settlement(): Settlement | undefined {
    return this.#message.settlement;
  }

  get settling(): Promise<void> | undefined {
    return this.#message.settling;
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
