/**
 * What engines and mailboxes of your own are made of. Implement {@linkcode Engine}, pass it to an
 * {@linkcode EngineMailbox}, and run `mailboxCases` of `./testing` on it.
 *
 * @example Open a mailbox on an engine of your own
 * ```ts
 * import { openMailbox } from "@lastcall/lastcall";
 * import { type Engine, EngineMailbox, jsonCodec } from "@lastcall/lastcall/engine";
 *
 * function open(url: string, fileEngine: (path: string) => Engine<string>) {
 *   return openMailbox<{ item: string }>(url, {
 *     engines: {
 *       file: ({ path }, options) =>
 *         new EngineMailbox("orders", fileEngine(path), jsonCodec(), options),
 *     },
 *   });
 * }
 * console.assert(open.length === 2);
 * ```
 *
 * @module
 */

export { type Random, seededRandom, systemRandom } from "./random.ts";
export {
  BASIC_CAPABILITIES,
  type Capabilities,
  type Delivery,
  type Engine,
  type EngineStats,
  type EngineTransaction,
  type Entry,
  FREE_RELEASES,
  freshnessOf,
  FULL_CAPABILITIES,
  type Handover,
  type Maybe,
  type MessageState,
  type OffThreadExtender,
  type OffThreadModule,
  type OffThreadPlan,
  type RateLimit,
  type Received,
  type StoredMessage,
} from "./mailbox/engine.ts";
export { EngineMailbox } from "./mailbox/engine_mailbox.ts";
export {
  type BodyCodec,
  type Codec,
  DEFAULT_MAX_BODY_BYTES,
  identityCodec,
  jsonCodec,
  type SyncCodec,
  type TracedBody,
} from "./mailbox/codec.ts";
export type { Envelope, EnvelopeOptions, MessageEnvelope, OnExpired } from "./mailbox/envelope.ts";
export {
  DEFAULT_VISIBILITY_TIMEOUT_MS,
  DEFAULT_WAIT_TIME_MS,
  type MailboxResolver,
  MAX_BATCH,
  MAX_DELAY_MS,
  MAX_VISIBILITY_MS,
  type PauseOptions,
  type PeekedMessage,
  type PeekOptions,
  type QueueStats,
  type ReleaseOptions,
  type ReplyAddress,
  type RequestOptions,
  type SendManyOptions,
  type Settlement,
  type StepRecord,
  type TransactionMailbox,
  type TransactionMessage,
} from "./mailbox/mailbox.ts";
export { fullError, type MailboxErrorName } from "./mailbox/errors.ts";
export type { DeliveryHistory, ErrorClass } from "./mailbox/dead_letters.ts";
export { type Allowance, type ControlState, QueueControl } from "./mailbox/queue_control.ts";
export { loadClient, PendingCalls } from "./engines/_kit/calls.ts";
export { type OwnerRegistry, OwnerWatch, type OwnerWatchOptions } from "./engines/_kit/owners.ts";
export { pollNowAndThen, wakeUps } from "./engines/_kit/wake_ups.ts";
export {
  countParam,
  filePath,
  flagParam,
  type MailboxUrl,
  redactUrl,
  withoutParameters,
} from "./engines/_kit/mailbox_url.ts";
export type { MailboxOpener } from "./engines/_kit/registration.ts";
