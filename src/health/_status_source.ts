import manifest from "../../deno.json" with { type: "json" };
import { type Clock, systemClock } from "../clock.ts";
import type { CronStatus } from "../cron/slot.ts";
import { safeLog } from "../library_log.ts";
import type { LoopHealth } from "../lifecycle/health_snapshot.ts";
import { type InFlight, NO_COUNTS, type Runnable, sumCounts } from "../lifecycle/runnable.ts";
import { settlesWithin } from "../_promises.ts";
import { systemRandom } from "../random.ts";
import { knownRuntime } from "../runtime.ts";
import type { Metric } from "../telemetry/metrics.ts";
import { CachedQuery } from "./_cached_query.ts";
import {
  isClosed,
  type MailboxAnswer,
  mailboxMetrics,
  mailboxStatus,
  readMailbox,
} from "./mailbox_answer.ts";
import { leaseCounters } from "./_metrics.ts";
import { Replicas } from "./_replicas.ts";
import type { HealthOptions, Inspectable, WatchedMailbox } from "./health_options.ts";
import type { HealthMember } from "./health_options.ts";
import type { LoopStatus, ProcessStatus, Status, Totals } from "./status.ts";

/** The most entries of work in flight per loop. */
const MAX_WORK = 20;
/** How long the answer of an engine is fresh: longer with many mailboxes. */
const FRESH_MS = 1_000;
const FRESH_MS_PER_MAILBOX = 10;

/** Collects the status of a group, and caches the answers of its engines. */
export class StatusSource {
  readonly #group: Inspectable;
  readonly #options: HealthOptions;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #rates: Rates;
  readonly #mailboxes = new Map<string, [WatchedMailbox, CachedQuery<MailboxAnswer>]>();
  readonly #process: ProcessStatus;
  readonly #board: CachedQuery<readonly HealthMember[]> | undefined;
  readonly #replicas: Replicas | undefined;

  constructor(group: Inspectable, options: HealthOptions, timeoutMs: number) {
    this.#group = group;
    this.#options = options;
    this.#timeoutMs = timeoutMs;
    this.#clock = options.clock ?? systemClock;
    this.#rates = new Rates(this.#clock);
    this.#process = processStatus(options, this.#clock);
    const { board, replicas = [] } = options;
    this.#board = board && this.#query("board", "agents", async () => await board.list());
    if (board === undefined && options.replicas === undefined) return;
    const queries = { timeoutMs, clock: this.#clock, log: safeLog(options.log) };
    this.#replicas = new Replicas(this.#process, replicas, queries);
  }

  /** Resolves with the status after old answers are refreshed. Does not wait for unreachable engines. */
  async fresh(): Promise<Status> {
    await this.refreshed();
    return this.known();
  }

  /** Resolves when the answers are fresh, as far as the engines are reachable. */
  async refreshed(): Promise<void> {
    await Promise.all([...this.#refreshMailboxes(), this.#refreshOthers()]);
  }

  /** Returns the status with the last answers, and refreshes old ones for the next call. */
  known(): Status {
    this.#refreshMailboxes();
    void this.#refreshOthers();
    return {
      ...this.#own(),
      mailboxes: [...this.#mailboxes.values()].map((entry) => mailboxStatus(...entry)),
      ...this.#agents(),
      ...(this.#replicas && { replicas: this.#replicas.known() }),
    };
  }

  /** Returns the status without loops, mailboxes, agents and replicas. Asks no engine. */
  summary(): Omit<Status, "loops" | "mailboxes"> {
    const { loops: _, ...summary } = this.#own();
    return summary;
  }

  #own(): Omit<Status, "mailboxes"> {
    const health = this.#group.health();
    const byName = new Map(this.#group.loops.map((loop) => [loop.name, loop]));
    const loops = health.loops.map((loop) => this.#loop(loop, byName.get(loop.name)));
    const runtime = knownRuntime()?.name;
    return {
      ...health,
      at: this.#clock.now(),
      ...(runtime !== undefined && { runtime }),
      process: this.#process,
      controls: this.#options.token !== undefined,
      totals: totalsOf(loops),
      loops,
    };
  }

  /** Returns the mailbox with this name, where the status contains it. */
  mailbox(name: string): WatchedMailbox | undefined {
    this.#addMailboxes();
    return this.#mailboxes.get(name)?.[0];
  }

  /** Returns the metrics of the mailboxes. Leaves out those that do not answer within `timeoutMs`. */
  async mailboxMetrics(timeoutMs: number): Promise<readonly Metric[]> {
    await settlesWithin(Promise.all(this.#refreshMailboxes()), timeoutMs, this.#clock);
    return [...this.#mailboxes.values()].flatMap(([{ name }, { current }]) => {
      return current === undefined ? [] : mailboxMetrics(name, current);
    });
  }

  /** Asks the engines of the first `max` mailboxes. Returns the counts of all of these by name. */
  async sample(max: number): Promise<ReadonlyMap<string, Partial<MailboxAnswer>>> {
    await Promise.all(this.#refreshMailboxes(max));
    return new Map(
      [...this.#mailboxes.values()].slice(0, max).map(([mailbox, { reachable, answer }]) => {
        return [mailbox.name, reachable && !isClosed(mailbox) ? answer ?? {} : {}];
      }),
    );
  }

  /** Ends the wait for all running queries. */
  abandon(): void {
    for (const [, query] of this.#mailboxes.values()) query.abandon();
    this.#board?.abandon();
    this.#replicas?.abandon();
  }

  async #refreshOthers(): Promise<void> {
    await this.#board?.refresh(FRESH_MS);
    await this.#replicas?.refresh(healthUrls(this.#board?.answer ?? []));
  }

  #refreshMailboxes(max: number = Infinity): readonly (Promise<void> | undefined)[] {
    this.#addMailboxes();
    const freshMs = Math.max(FRESH_MS, FRESH_MS_PER_MAILBOX * this.#mailboxes.size);
    return [...this.#mailboxes.values()].slice(0, max).map(([mailbox, query]) => {
      return isClosed(mailbox) ? undefined : query.refresh(freshMs);
    });
  }

  /**
   * Adds each mailbox once by name: loops may share a mailbox or open the same queue. A loop with a URL
   * opens a new mailbox for each run, which replaces the closed one.
   */
  #addMailboxes(): void {
    const { mailboxes = [] } = this.#options;
    for (const mailbox of [...mailboxes, ...this.#group.loops.map(({ mailbox }) => mailbox)]) {
      if (mailbox === undefined) continue;
      const [known] = this.#mailboxes.get(mailbox.name) ?? [];
      if (known !== undefined && (!isClosed(known) || isClosed(mailbox))) continue;
      const query = this.#query("mailbox", mailbox.name, () => readMailbox(mailbox));
      this.#mailboxes.set(mailbox.name, [mailbox, query]);
    }
  }

  #query<T>(kind: "mailbox" | "board", name: string, ask: () => Promise<T>): CachedQuery<T> {
    const log = safeLog(this.#options.log);
    return new CachedQuery({
      ask,
      fields: { [kind]: name },
      timeoutMs: this.#timeoutMs,
      clock: this.#clock,
      log,
    });
  }

  #loop(health: LoopHealth, loop: Runnable | undefined): LoopStatus {
    const { ahead, counts, mailbox, messagesInFlight: messages, cron } =
      (loop ?? {}) as CronRunnable;
    const leases = leaseCounters(loop);
    const perSecond = counts && this.#rates.perSecond(health.name, counts.acknowledged);
    return {
      ...health,
      work: health.inFlight > 0 ? oldest(loop?.inFlight ?? []) : [],
      ...(messages && { messages }),
      ...(ahead && { ahead }),
      ...(counts && { counts }),
      ...(perSecond !== undefined && { perSecond }),
      ...(leases && { leases: { ...leases } }),
      ...(mailbox && { mailbox: mailbox.name }),
      ...(cron && { cron }),
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

/** A loop, which may be a `CronLoop`. */
type CronRunnable = Partial<Runnable> & { readonly cron?: CronStatus };

/** Describes this process. */
function processStatus({ name, version }: HealthOptions, clock: Clock): ProcessStatus {
  const { pid, hostName = "unnamed" } = knownRuntime()?.identity?.() ?? {};
  return {
    id: systemRandom.id(),
    name: name ?? hostName,
    ...(pid !== undefined && { pid }),
    startedAt: clock.now(),
    ...(version !== undefined && { version }),
    lastcall: manifest.version,
  };
}

/** Returns what the members that run have published as the address of their health app. */
function healthUrls(members: readonly HealthMember[]): readonly unknown[] {
  return members.filter(({ status }) => status === "running" || status === "shutting_down")
    .flatMap(({ metadata }) => metadata?.["healthUrl"] ?? []);
}

/** Returns the oldest work, oldest first. It sorts only the entries that it keeps. */
function oldest(work: readonly InFlight[]): readonly InFlight[] {
  const found: InFlight[] = [];
  for (const { id, ageMs } of work) {
    if (found.length === MAX_WORK && ageMs <= found[MAX_WORK - 1]!.ageMs) continue;
    let place = found.length;
    while (place > 0 && found[place - 1]!.ageMs < ageMs) place--;
    found.splice(place, 0, { id, ageMs });
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

/** Rates are means over at most this time. */
const RATE_WINDOW_MS = 10_000;
/** The shortest time between two stored counts. */
const RATE_SPACING_MS = 500;

/** Computes rates from counts, which it gets only when a client asks for the status. */
class Rates {
  readonly #clock: Clock;
  readonly #counts = new Map<string, { readonly at: number; readonly count: number }[]>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns the growth per second since the first count in the window; undefined at the first call. */
  perSecond(name: string, count: number): number | undefined {
    const now = this.#clock.monotonic();
    // A lower count is the count of a new run.
    const earlier = (this.#counts.get(name) ?? [])
      .filter((it) => now - it.at <= RATE_WINDOW_MS && it.count <= count);
    const [first] = earlier;
    if (now - (earlier.at(-1)?.at ?? -Infinity) >= RATE_SPACING_MS) {
      earlier.push({ at: now, count });
    }
    this.#counts.set(name, earlier);
    if (first === undefined || now - first.at < RATE_SPACING_MS) return undefined;
    return (count - first.count) * 1_000 / (now - first.at);
  }
}
