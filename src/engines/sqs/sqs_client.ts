/**
 * The parts of the AWS SDK that the engine uses. `@aws-sdk/client-sqs` has this shape.
 *
 * @module
 */

/** A client of SQS, like the SDK's `SQSClient`. */
export interface SqsClient {
  /** Sends a command. The signal aborts it. */
  // deno-lint-ignore no-explicit-any -- the SDK defines the types of commands and answers
  send(command: any, options?: { readonly abortSignal?: AbortSignal }): Promise<any>;
}

/** A command class of the SDK. */
// deno-lint-ignore no-explicit-any -- as above
export type SqsCommand = new (input: any) => unknown;

/** The command classes that the engine uses. */
export interface SqsCommands {
  /** Extends, releases and nacks messages. */
  readonly ChangeMessageVisibilityBatchCommand: SqsCommand;
  /** Creates missing queues, if allowed. */
  readonly CreateQueueCommand: SqsCommand;
  /** Acknowledges messages. */
  readonly DeleteMessageBatchCommand: SqsCommand;
  /** Counts messages and reads the settings of the queue. */
  readonly GetQueueAttributesCommand: SqsCommand;
  /** Finds a queue by its name. */
  readonly GetQueueUrlCommand: SqsCommand;
  /** Deletes all messages of a queue. */
  readonly PurgeQueueCommand: SqsCommand;
  /** Receives messages. */
  readonly ReceiveMessageCommand: SqsCommand;
  /** Sends messages and dead letters. */
  readonly SendMessageBatchCommand: SqsCommand;
}

/** The module `@aws-sdk/client-sqs`. */
export interface SqsSdk extends SqsCommands {
  /** Creates the client, unless the caller passes one. */
  // deno-lint-ignore no-explicit-any -- as above
  readonly SQSClient: new (config: any) => SqsClient & { destroy(): void };
}
