import { isMailboxError } from "../mailbox/errors.ts";
import type { Mailbox, MailboxStats } from "../mailbox/mailbox.ts";
import { type Metric, metric } from "../telemetry/metrics.ts";
import { letterOf } from "./_message_page.ts";
import { type CachedQuery, NoAnswerError } from "./_cached_query.ts";
import type { WatchedMailbox } from "./health_options.ts";
import type { LetterStatus, MailboxStatus } from "./status.ts";

/** The most dead letters per mailbox. */
const MAX_DEAD_LETTERS = 20;

/** What the engine of a mailbox tells. */
export interface MailboxAnswer extends Partial<MailboxStats> {
  readonly messages: number;
  readonly letters?: readonly LetterStatus[];
}

/** Reads the counts and the oldest dead letters of a mailbox. */
export async function readMailbox(mailbox: WatchedMailbox): Promise<MailboxAnswer> {
  const stats = await mailbox.stats?.();
  if (stats === undefined) return { messages: await mailbox.approximateCount() };
  const messages = await countAll(mailbox, stats);
  if (stats.dead === undefined) return { messages, ...stats };
  const letters = stats.dead > 0 ? await readDeadLetters(mailbox) : [];
  return { messages, ...stats, ...(letters && { letters }) };
}

/** Returns the number of messages in any state. */
export async function countAll(
  mailbox: Pick<Mailbox<never>, "approximateCount">,
  { waiting, delayed, inFlight }: MailboxStats,
): Promise<number> {
  return delayed === undefined || inFlight === undefined
    ? await mailbox.approximateCount()
    : waiting + delayed + inFlight;
}

/** Returns the public part of the oldest dead letters; undefined where the engine cannot peek. */
async function readDeadLetters(
  mailbox: WatchedMailbox,
): Promise<readonly LetterStatus[] | undefined> {
  const { deadLetters } = mailbox as Partial<Mailbox<unknown>>;
  try {
    return (await deadLetters?.peek?.(MAX_DEAD_LETTERS))?.map((peeked) => {
      const { id, reason, deliveryCount, deadAt } = letterOf(peeked);
      return { id, reason, deliveryCount, deadAt };
    });
  } catch {
    return undefined; // some engines cannot peek; the counts are still valid
  }
}

/** Returns the status of a mailbox by the last answer of its engine. */
export function mailboxStatus(
  mailbox: WatchedMailbox,
  { reachable, answer, error }: CachedQuery<MailboxAnswer>,
): MailboxStatus {
  const { engine, trouble, capabilities } = mailbox as Partial<Mailbox<unknown>>;
  const base = { name: mailbox.name, ...(engine !== undefined && { engine }) };
  if (isClosed(mailbox)) return { ...base, reachable: false, error: "the mailbox is closed" };
  if (reachable) {
    return {
      ...{ ...base, reachable, ...answer },
      ...(capabilities && { ownerDetection: capabilities.ownerDetection }),
      ...(trouble !== undefined && { error: trouble }),
    };
  }
  return { ...base, reachable, ...(error !== undefined && { error: publicText(error) }) };
}

/** Returns true for a mailbox that answers no queries any more. */
export function isClosed(mailbox: WatchedMailbox): boolean {
  return (mailbox as Partial<Mailbox<unknown>>).closed === true;
}

/** Returns the metrics of a mailbox. Leaves out what its engine cannot tell. */
export function mailboxMetrics(mailbox: string, answer: MailboxAnswer): readonly Metric[] {
  const { waiting, delayed, inFlight, dead, oldestWaitingMs, paused, rateLimit } = answer;
  const states = Object.entries({ waiting, delayed, in_flight: inFlight, dead });
  const samples = states.flatMap(([state, value]) => {
    return value === undefined ? [] : [{ labels: { mailbox, state }, value }];
  });
  const oldestMs = waiting === 0 ? 0 : oldestWaitingMs;
  return [
    metric("lastcall_mailbox_messages", samples),
    ...(oldestMs === undefined
      ? []
      : [metric("lastcall_mailbox_oldest_waiting_seconds", oldestMs / 1_000, { mailbox })]),
    ...(paused === undefined
      ? []
      : [metric("lastcall_mailbox_paused", Number(paused), { mailbox })]),
    ...(rateLimit === undefined ? [] : [
      metric("lastcall_mailbox_rate_limit_per_second", rateLimit.max / rateLimit.perMs * 1_000, {
        mailbox,
      }),
    ]),
  ];
}

/** Errors of engines contain no passwords. Other errors may, so only their names are public. */
function publicText(error: unknown): string {
  if (isMailboxError(error) || error instanceof NoAnswerError) return error.message;
  return `${error instanceof Error ? error.name : "Error"}; the log has the rest`;
}
