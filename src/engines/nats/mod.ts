/**
 * Mailboxes on a NATS server, by its JetStream.
 *
 * @module
 */

export type {
  NatsConnection,
  NatsMessage,
  NatsSubscribeOptions,
  NatsSubscription,
} from "./nats_connection.ts";
export { NatsMailbox, type NatsMailboxOptions } from "./nats_mailbox.ts";
