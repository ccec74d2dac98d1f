import { type Clock, systemClock } from "../clock.ts";
import type { LeaseCounters } from "../lease/lease_extender.ts";
import { NO_COUNTS, sumCounts } from "../lifecycle/runnable.ts";
import type { LoopHealth } from "../lifecycle/health_snapshot.ts";
import type { InFlight, Runnable } from "../lifecycle/runnable.ts";
import { safeLog } from "../library_log.ts";
import { isMailboxError } from "../mailbox/errors.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { knownRuntime } from "../runtime.ts";
import type { HealthOptions, Inspectable, WatchedMailbox } from "./health_options.ts";
import { CachedQuery, type CachedQueryOptions, NoAnswerError } from "./_cached_query.ts";
import { type MailboxCounts, readMailbox } from "./_dead_letters.ts";
import { Rates } from "./_rates.ts";
import type { AgentStatusLine, LoopStatus, MailboxStatus, Status, Totals } from "./status.ts";

/** How much of a loop's work is named. */
const MAX_WORK = 20;
/** An answer of an engine is good for so long; with many mailboxes for longer. */
const FRESH_MS = 1_000;
const FRESH_MS_EACH = 10;

/** Collects the status of a group, and caches the answers of its engines. */
export class StatusSource {
  readonly #group: Inspectable;
  readonly #options: HealthOptions;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #rates: Rates;
  readonly #inquiries = new Map<string, [WatchedMailbox, CachedQuery<MailboxCounts>]>();
  readonly #board: CachedQuery<readonly AgentStatusLine[]> | undefined;

  constructor(group: Inspectable, options: HealthOptions, timeoutMs: number) {
    this.#group = group;
    this.#options = options;
    this.#timeoutMs = timeoutMs;
    this.#clock = options.clock ?? systemClock;
    this.#rates = new Rates(this.#clock);
    const { board } = options;
    this.#board = board && this.#inquiry("the board of agents", async () => await board.list());
  }

  /** Everything, with the engines asked where what is known of them is old. Waits for none that is away. */
  async look(): Promise<Status> {
    await this.informed();
    return this.known();
  }

  /** Resolves when what is known is fresh, as far as it can be. */
  async informed(): Promise<void> {
    await Promise.all(this.#refresh());
  }

  /** Everything as far as it is known at this moment; engines are asked for the next time. */
  known(): Status {
    this.#refresh();
    const health = this.#group.health();
    const byName = new Map(this.#group.loops.map((loop) => [loop.name, loop]));
    const loops = health.loops.map((loop) => this.#loop(loop, byName.get(loop.name)));
    const runtime = knownRuntime()?.name;
    return {
      ...health,
      at: this.#clock.now(),
      ...(runtime !== undefined && { runtime }),
      controls: this.#options.token !== undefined,
      totals: totalsOf(loops),
      loops,
      mailboxes: [...this.#inquiries.values()].map((entry) => mailboxStatus(...entry)),
      ...this.#agents(),
    };
  }

  /** The mailbox of this name, where it is one of those that are told of. */
  mailbox(name: string): WatchedMailbox | undefined {
    this.#meetMailboxes();
    return this.#inquiries.get(name)?.[0];
  }

  #refresh(): readonly (Promise<void> | undefined)[] {
    this.#meetMailboxes();
    const freshMs = Math.max(FRESH_MS, FRESH_MS_EACH * this.#inquiries.size);
    const mailboxes = [...this.#inquiries.values()].map(([, inquiry]) => inquiry.refresh(freshMs));
    return [...mailboxes, this.#board?.refresh(FRESH_MS)];
  }

  /** Each name once: loops that share a mailbox, or open the same queue, tell of one. */
  #meetMailboxes(): void {
    const { mailboxes = [] } = this.#options;
    for (const mailbox of [...mailboxes, ...this.#group.loops.map(({ mailbox }) => mailbox)]) {
      if (mailbox === undefined || this.#inquiries.has(mailbox.name)) continue;
      const inquiry = this.#inquiry(`mailbox "${mailbox.name}"`, () => readMailbox(mailbox));
      this.#inquiries.set(mailbox.name, [mailbox, inquiry]);
    }
  }

  #inquiry<T>(what: string, ask: CachedQueryOptions<T>["ask"]): CachedQuery<T> {
    const log = safeLog(this.#options.log);
    return new CachedQuery({ what, ask, timeoutMs: this.#timeoutMs, clock: this.#clock, log });
  }

  #loop(health: LoopHealth, loop: Runnable | undefined): LoopStatus {
    const { counts, mailbox } = loop ?? {};
    const { leases } = Object(loop) as { readonly leases?: { readonly counters?: LeaseCounters } };
    const perSecond = counts && this.#rates.perSecond(health.name, counts.acknowledged);
    return {
      ...health,
      work: health.inFlight > 0 ? oldest(loop?.inFlight ?? []) : [],
      ...(counts && { counts }),
      ...(perSecond !== undefined && { perSecond }),
      ...(leases?.counters && { leases: { ...leases.counters } }),
      ...(mailbox && { mailbox: mailbox.name }),
    };
  }

  #agents(): Pick<Status, "agents" | "boardReachable"> {
    if (this.#board === undefined) return {};
    const { answer = [], reachable } = this.#board;
    return {
      // The metadata of agents is not public.
      agents: answer.map(({ agentId, status, updatedAt }) => {
        return { agentId, status, ...(updatedAt !== undefined && { updatedAt }) };
      }),
      boardReachable: reachable,
    };
  }
}

function mailboxStatus(
  mailbox: WatchedMailbox,
  { reachable, answer, error }: CachedQuery<MailboxCounts>,
): MailboxStatus {
  const { name } = mailbox;
  const { engine, trouble } = mailbox as Partial<Mailbox<unknown>>;
  const place = { name, ...(engine !== undefined && { engine }), reachable };
  if (reachable) return { ...place, ...answer, ...(trouble !== undefined && { error: trouble }) };
  return { ...place, ...(error !== undefined && { error: publicText(error) }) };
}

/** An engine's own errors carry no passwords; what else was thrown may. */
function publicText(error: unknown): string {
  if (isMailboxError(error) || error instanceof NoAnswerError) return error.message;
  return `${error instanceof Error ? error.name : "Error"}; the log has the rest`;
}

/** The oldest first; most of many are never sorted. */
function oldest(work: readonly InFlight[]): readonly InFlight[] {
  const found: InFlight[] = [];
  for (const piece of work) {
    if (found.length === MAX_WORK && piece.ageMs <= found[MAX_WORK - 1]!.ageMs) continue;
    let place = found.length;
    while (place > 0 && found[place - 1]!.ageMs < piece.ageMs) place--;
    found.splice(place, 0, { id: piece.id, ageMs: piece.ageMs });
    if (found.length > MAX_WORK) found.pop();
  }
  return found;
}

function totalsOf(loops: readonly LoopStatus[]): Totals {
  const rates = loops.flatMap(({ perSecond }) => perSecond ?? []);
  return {
    loops: loops.length,
    ready: loops.filter(({ ready }) => ready).length,
    inFlight: loops.reduce((sum, { inFlight }) => sum + inFlight, 0),
    oldestMs: loops.reduce((most, { oldestMs }) => Math.max(most, oldestMs), 0),
    counts: sumCounts(loops.map(({ counts = NO_COUNTS }) => counts)),
    ...(rates.length > 0 && { perSecond: rates.reduce((sum, rate) => sum + rate, 0) }),
  };
}
