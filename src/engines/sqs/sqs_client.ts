/**
 * What of the AWS SDK is used. `@aws-sdk/client-sqs` fits as it is.
 *
 * @module
 */

/** A client of SQS, like the SDK's `SQSClient`. */
export interface SqsClient {
  /** Sends a command, which the signal may give up. */
  // deno-lint-ignore no-explicit-any -- what a command takes and gives is the SDK's business
  send(command: any, options?: { readonly abortSignal?: AbortSignal }): Promise<any>;
}

/** A class of the SDK. */
// deno-lint-ignore no-explicit-any -- as above
export type SqsCommand = new (input: any) => unknown;

/** The commands that are sent, by the names of their classes. */
export interface SqsCommands {
  /** Extends, releases and retries. */
  readonly ChangeMessageVisibilityBatchCommand: SqsCommand;
  /** Makes queues that are missing, where that is allowed. */
  readonly CreateQueueCommand: SqsCommand;
  /** Acknowledges. */
  readonly DeleteMessageBatchCommand: SqsCommand;
  /** Counts, and reads how the queue is set up. */
  readonly GetQueueAttributesCommand: SqsCommand;
  /** Finds a queue by its name. */
  readonly GetQueueUrlCommand: SqsCommand;
  /** Empties a queue. */
  readonly PurgeQueueCommand: SqsCommand;
  /** Takes messages, by long poll. */
  readonly ReceiveMessageCommand: SqsCommand;
  /** Sends, dead letters included. */
  readonly SendMessageBatchCommand: SqsCommand;
}

/** The module `@aws-sdk/client-sqs`. */
export interface SqsSdk extends SqsCommands {
  /** Makes the client where none is given. */
  // deno-lint-ignore no-explicit-any -- as above
  readonly SQSClient: new (config: any) => SqsClient & { destroy(): void };
}
