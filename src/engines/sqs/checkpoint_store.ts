/**
 * Where the progress of messages is kept. SQS cannot change a message that it has, so progress needs a
 * place of its own: a table, a key-value store, anything that all workers reach. Give its entries a
 * lifetime of the queue's retention: those of messages that are purged or expire are not removed.
 */
export interface CheckpointStore {
  /** The text that was stored last; nothing, or `null`, when there is none. */
  get(messageId: string): Promise<string | null | undefined>;
  /** Stores a text. */
  set(messageId: string, progress: string): Promise<unknown>;
  /** Removes it: the message is done. */
  delete(messageId: string): Promise<unknown>;
}
