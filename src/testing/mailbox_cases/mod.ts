/**
 * What every mailbox has to pass: ours, and one of your own.
 *
 * @module
 */

import { abort } from "./abort.ts";
import { Bench } from "./_bench.ts";
import { bounds } from "./bounds.ts";
import { checkpoints } from "./checkpoints.ts";
import { close } from "./close.ts";
import { concurrency } from "./concurrency.ts";
import { deadLetters } from "./dead_letters.ts";
import { delivery } from "./delivery.ts";
import { givingBack } from "./giving_back.ts";
import { housekeeping } from "./housekeeping.ts";
import { idsAndDelays } from "./ids_and_delays.ts";
import { longPoll } from "./long_poll.ts";
import type { MailboxCase, MakeMailbox } from "./mailbox_case.ts";
import { receipts } from "./receipts.ts";
import { replies } from "./replies.ts";
import { headers } from "./headers.ts";
import { visibility } from "./visibility.ts";

/**
 * The cases of the contract, by topic. A host runs them all, in any order, and asserts with
 * {@linkcode skippedMailboxCases} which of them its mailbox cannot show.
 *
 * @example
 * ```ts
 * import { InMemoryMailbox } from "@lastcall/lastcall";
 * import { mailboxCases, VirtualClock } from "@lastcall/lastcall/testing";
 *
 * for (const { topic, name, run } of mailboxCases) {
 *   console.log(`${topic}: ${name}`);
 *   await run((options) => {
 *     const clock = new VirtualClock();
 *     const mailbox = new InMemoryMailbox<unknown>("mine", { ...options, clock });
 *     return { mailbox, tickMs: 1_000, pass: (ms) => clock.advance(ms) };
 *   });
 * }
 * ```
 */
export const mailboxCases: readonly MailboxCase[] = [
  ...delivery,
  ...visibility,
  ...receipts,
  ...givingBack,
  ...longPoll,
  ...abort,
  ...close,
  ...bounds,
  ...replies,
  ...concurrency,
  ...deadLetters,
  ...checkpoints,
  ...idsAndDelays,
  ...headers,
  ...housekeeping,
];

/** A case that a mailbox cannot show, and what it lacks for that. */
export interface SkippedMailboxCase {
  /** What the case belongs to. */
  readonly topic: string;
  /** What it would show. */
  readonly name: string;
  /** What the mailbox lacks for it. */
  readonly why: string;
}

/**
 * Tells which cases prove nothing for a mailbox, so that its test can assert that nothing more is left
 * out than is known.
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
  const bench = await Bench.make(make);
  try {
    return mailboxCases.flatMap(({ topic, name, ...gate }) => {
      const why = bench.lacks(gate);
      return why === undefined ? [] : [{ topic, name, why }];
    });
  } finally {
    await bench.close();
  }
}

export type {
  MailboxCase,
  MailboxFixture,
  MailboxPart,
  MailboxTopic,
  MakeMailbox,
} from "./mailbox_case.ts";
