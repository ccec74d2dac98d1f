/**
 * Mailboxes on Amazon SQS and compatible services.
 *
 * @module
 */

export type { CheckpointStore } from "./checkpoint_store.ts";
export type { SqsClient, SqsCommand, SqsCommands, SqsSdk } from "./sqs_client.ts";
export { SqsMailbox, type SqsMailboxOptions } from "./sqs_mailbox.ts";
