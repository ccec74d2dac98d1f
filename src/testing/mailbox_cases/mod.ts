/**
 * The test cases that every mailbox has to pass.
 *
 * @module
 */

import { abort, close } from "./abort_and_close.ts";
import { bounds } from "./bounds.ts";
import { checkpoints } from "./checkpoints.ts";
import { concurrency } from "./concurrency.ts";
import { countPeekPurge } from "./count_peek_purge.ts";
import { deadLetters } from "./dead_letters.ts";
import { deadLettersById } from "./dead_letters_by_id.ts";
import { deliverNow } from "./deliver_now.ts";
import { delivery } from "./delivery.ts";
import { codecs } from "./codecs.ts";
import { headers, replies } from "./envelope.ts";
import { deduplication, expiry } from "./expiry_and_dedup.ts";
import { idsAndDelays } from "./ids_and_delays.ts";
import { keys, priorities } from "./keys_and_priorities.ts";
import { receiptHandles, visibility } from "./leases.ts";
import { longPoll } from "./long_poll.ts";
import { type MailboxCase, type MakeMailbox, Setup, skipReason } from "./mailbox_case.ts";
import { pause, rateLimit } from "./queue_control.ts";
import { releaseAndNack } from "./release_and_nack.ts";
import { getAndCancel, requests, stats } from "./stats_and_lookup.ts";

/**
 * The cases of the mailbox contract, by topic. They can run in any order.
 *
 * @example
 * ```ts
 * import { InMemoryMailbox } from "@lastcall/lastcall";
 * import { mailboxCases, VirtualClock } from "@lastcall/lastcall/testing";
 *
 * for (const { topic, name, run } of mailboxCases) {
 *   let result = "passed";
 *   await run((options) => {
 *     const clock = new VirtualClock();
 *     const mailbox = new InMemoryMailbox<unknown>("mine", { ...options, clock });
 *     return { mailbox, tickMs: 1_000, pass: (ms) => clock.advance(ms) };
 *   }, (why) => result = `skipped, ${why}`);
 *   console.log(`${topic}: ${name}: ${result}`);
 * }
 * ```
 */
export const mailboxCases: readonly MailboxCase[] = [
  ...delivery,
  ...visibility,
  ...receiptHandles,
  ...releaseAndNack,
  ...longPoll,
  ...abort,
  ...close,
  ...bounds,
  ...replies,
  ...concurrency,
  ...deadLetters,
  ...deadLettersById,
  ...checkpoints,
  ...idsAndDelays,
  ...headers,
  ...countPeekPurge,
  ...keys,
  ...priorities,
  ...expiry,
  ...deduplication,
  ...stats,
  ...getAndCancel,
  ...deliverNow,
  ...pause,
  ...rateLimit,
  ...requests,
  ...codecs,
];

/** A case that is skipped for a mailbox. */
export interface SkippedMailboxCase {
  /** The subject of the case. */
  readonly topic: string;
  /** The behaviour that it would test. */
  readonly name: string;
  /** What the mailbox lacks. */
  readonly why: string;
}

/**
 * Returns the cases that are skipped for a mailbox. Use it to register them as skipped tests, or to assert
 * that no other case is skipped.
 *
 * @example
 * ```ts
 * import { InMemoryMailbox } from "@lastcall/lastcall";
 * import { skippedMailboxCases, VirtualClock } from "@lastcall/lastcall/testing";
 *
 * const clock = new VirtualClock();
 * const skipped = await skippedMailboxCases((options) => ({
 *   mailbox: new InMemoryMailbox<unknown>("mine", { ...options, clock }),
 *   tickMs: 1_000,
 *   pass: (ms) => clock.advance(ms),
 * }));
 * const reasons = new Set(skipped.map(({ why }) => why));
 * console.assert(reasons.has("there is no sibling"));
 * ```
 */
export async function skippedMailboxCases(
  make: MakeMailbox,
): Promise<readonly SkippedMailboxCase[]> {
  const setup = await Setup.make(make);
  try {
    return mailboxCases.flatMap(({ topic, name, ...gate }) => {
      const why = skipReason(gate, (what) => setup.lacks(what));
      return why === undefined ? [] : [{ topic, name, why }];
    });
  } finally {
    await setup.close();
  }
}

export { skipReason };
export type {
  MailboxCase,
  MailboxFixture,
  MailboxPart,
  MailboxTopic,
  MakeMailbox,
} from "./mailbox_case.ts";
