/** What an engine can do. */
export interface Capabilities {
  /** An expired receipt handle cannot acknowledge, nack or extend. */
  readonly fencedAck: boolean;
  /** Each receive may choose its own visibility timeout. */
  readonly perReceiveVisibility: boolean;
  /** A release does not spend a delivery attempt. */
  readonly restoresAttempts: boolean;
  /** A delivery tells how many earlier ones ended because their lease expired or their process died. */
  readonly leaseExpiries: boolean;
  /** Messages are received in the order they were sent, also after a release. */
  readonly fifo: boolean;
  /** A message can be sent with a delay. */
  readonly delay: boolean;
  /** A message with the id of a stored message is not stored again. */
  readonly dedup: boolean;
  /** `approximateCount` is exact. */
  readonly exactCount: boolean;
  /** `stats` tells all counts, and they are exact. */
  readonly exactStats: boolean;
  /** Messages with the same key are delivered one at a time and in order. */
  readonly keys: boolean;
  /** Messages with a higher priority are delivered first. */
  readonly priorities: boolean;
  /** Delays may be longer than 12 hours. */
  readonly longDelays: boolean;
  /** An id is remembered for `dedupMs`, also after its message is gone. */
  readonly dedupWindow: boolean;
  /** `get`, `cancel` and `deliverNow` find messages by id. */
  readonly lookup: boolean;
  /** `pause` and `resume` control all processes. */
  readonly pause: boolean;
  /** `rateLimit` limits the deliveries to all processes together. */
  readonly rateLimit: boolean;
  /** `request` sends a message and waits for its reply. */
  readonly requests: boolean;
  /** Messages can be sent and acknowledged in a transaction of the caller. */
  readonly transactions: boolean;
  /**
   * The messages of a process that died are delivered again within seconds, before their visibility timeout
   * passes. It may be false until the first receive, and become false when the connection does not allow it.
   */
  readonly ownerDetection: boolean;
}

/** The capabilities of an engine without limits. */
export const FULL_CAPABILITIES: Capabilities = {
  fencedAck: true,
  perReceiveVisibility: true,
  restoresAttempts: true,
  leaseExpiries: true,
  fifo: true,
  delay: true,
  dedup: true,
  exactCount: true,
  exactStats: true,
  keys: true,
  priorities: true,
  longDelays: true,
  dedupWindow: true,
  lookup: true,
  pause: true,
  rateLimit: true,
  requests: true,
  transactions: true,
  ownerDetection: true,
};

/**
 * The capabilities of an engine that has the required members and no optional one: the start for an engine of
 * your own. A later version may add capabilities; they are false here.
 */
export const BASIC_CAPABILITIES: Capabilities = {
  ...FULL_CAPABILITIES,
  leaseExpiries: false,
  keys: false,
  priorities: false,
  longDelays: false,
  dedupWindow: false,
  lookup: false,
  pause: false,
  rateLimit: false,
  requests: false,
  transactions: false,
  ownerDetection: false,
};
