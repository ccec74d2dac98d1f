// What `lastcall top` looks at: the queues of a mailbox's storage, and workers with a health app.

import { isMailboxError, type Mailbox, silentLog, systemClock } from "../../mod.ts";
import { checkMailboxUrl } from "../../src/engines/open_mailbox.ts";
import { parseMailboxUrl, redactUrl } from "../../src/engines/_kit/mailbox_url.ts";
import type { StopProgress } from "../../src/lifecycle/health_snapshot.ts";
import type { MailboxStats } from "../../src/mailbox/mailbox.ts";
import { CliError, toCliError } from "../_errors.ts";
import { fetchStatus, healthUrl, type StatusAnswer } from "../_health.ts";
import { hasScheme, open } from "../_mailbox.ts";

/** A queue, and how it has changed since the last look. */
export interface QueueRow extends Partial<MailboxStats> {
  readonly name: string;
  /** Where it is: the URL of the mailbox, or of the worker that reports it. */
  readonly at: string;
  readonly engine?: string | undefined;
  /** How its number of messages changes: the messages that come in, less those that go out. */
  readonly changePerSecond?: number;
}

/** A worker process. */
export interface WorkerRow {
  readonly at: string;
  /** The name of the process, where it is known. */
  readonly name?: string | undefined;
  readonly pid?: number | undefined;
  readonly phase: string;
  readonly ready: boolean;
  readonly paused: boolean;
  readonly loops: number;
  readonly inFlight: number;
  readonly oldestMs: number;
  /** Acknowledged messages per second, where they are known. */
  readonly perSecond?: number | undefined;
  readonly acknowledged: number;
  readonly failed: number;
  /** How far a stop is. */
  readonly stop?: StopProgress | undefined;
}

/** What a source answered. */
export interface Answer {
  readonly queues: readonly QueueRow[];
  readonly workers: readonly WorkerRow[];
}

/** Something that can be looked at again and again. */
export interface Source {
  /** Its URL without a password. */
  readonly at: string;
  look(): Promise<Answer>;
  close(): Promise<void>;
}

/**
 * Returns the source of a URL: that of a mailbox, or of a health app.
 *
 * @throws {CliError} when it is neither.
 */
export function sourceOf(url: string): Source {
  return hasScheme(url) ? new MailboxSource(url) : new WorkerSource(url);
}

class MailboxSource implements Source {
  readonly at: string;
  readonly #url: string;
  readonly #isOneQueue: boolean;
  readonly #changes = new Changes();
  #mailbox: Mailbox<unknown> | undefined;

  constructor(url: string) {
    checkMailboxUrl(url);
    this.at = redactUrl(url);
    this.#url = url;
    this.#isOneQueue = parseMailboxUrl(url).params.has("queue");
  }

  async look(): Promise<Answer> {
    const mailbox = this.#mailbox ??= await open(this.#url, false, { log: silentLog });
    const now = systemClock.monotonic();
    const queues = await this.#queues(mailbox);
    const rows = queues.map((stats) => ({
      ...stats,
      ...{ at: this.at, engine: mailbox.engine },
      ...this.#changes.of(stats, now),
    }));
    return { queues: rows, workers: [] };
  }

  async #queues(mailbox: Mailbox<unknown>): Promise<readonly ({ name: string } & MailboxStats)[]> {
    const own = async () => [{ name: mailbox.name, ...await mailbox.stats() }];
    if (this.#isOneQueue || mailbox.queues === undefined) return await own();
    try {
      return await mailbox.queues();
    } catch (error) {
      if (isMailboxError(error, "InvalidParameterError")) return await own();
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#mailbox?.close();
  }
}

/** Remembers the counts of the last look. */
class Changes {
  readonly #before = new Map<string, { readonly at: number; readonly messages: number }>();

  of(
    { name, waiting, delayed = 0, inFlight = 0 }: { readonly name: string } & MailboxStats,
    now: number,
  ): { readonly changePerSecond?: number } {
    const messages = waiting + delayed + inFlight;
    const before = this.#before.get(name);
    this.#before.set(name, { at: now, messages });
    if (before === undefined || before.at >= now) return {};
    return { changePerSecond: (messages - before.messages) / (now - before.at) * 1_000 };
  }
}

class WorkerSource implements Source {
  readonly at: string;

  constructor(url: string) {
    this.at = healthUrl(url, "of a mailbox or of a health app");
  }

  async look(): Promise<Answer> {
    const status = await fetchStatus(this.at);
    const { mailboxes = [], replicas = [] } = status;
    return {
      workers: [
        workerRow(this.at, status),
        // Replicas that did not answer have no phase.
        ...replicas.filter(({ phase }) => phase !== undefined)
          .map((it) => workerRow(it.url, { loops: [], ...it } as unknown as StatusAnswer)),
      ],
      queues: mailboxes.map((mailbox) => ({ ...mailbox, at: this.at })),
    };
  }

  async close(): Promise<void> {}
}

function workerRow(at: string, status: StatusAnswer): WorkerRow {
  const { phase, ready, paused = false, loops, totals, stop, process } = status;
  const sum = (of: (loop: StatusAnswer["loops"][number]) => number) =>
    loops.reduce((all, loop) => all + of(loop), 0);
  return {
    ...{ at, name: process?.name, pid: process?.pid, phase, ready, paused, stop },
    loops: totals?.loops ?? loops.length,
    inFlight: totals?.inFlight ?? sum(({ inFlight }) => inFlight),
    oldestMs: totals?.oldestMs ?? Math.max(0, ...loops.map(({ oldestMs }) => oldestMs)),
    perSecond: totals?.perSecond,
    acknowledged: totals?.counts.acknowledged ?? sum(({ counts }) => counts?.acknowledged ?? 0),
    failed: totals === undefined
      ? sum(({ counts }) => (counts?.nacked ?? 0) + (counts?.deadLettered ?? 0))
      : totals.counts.nacked + totals.counts.deadLettered,
  };
}

/** A source that did not answer. */
export interface Away {
  readonly at: string;
  readonly message: string;
  readonly code: string;
}

/** What all sources answered last. */
export interface View extends Answer {
  readonly away: readonly Away[];
}

/** Looks at sources. One that does not answer in time keeps its last answer, and does not delay the others. */
export class Looker {
  readonly #sources: readonly Source[];
  readonly #last = new Map<Source, Answer | Away>();
  readonly #pending = new Map<Source, Promise<void>>();

  constructor(sources: readonly Source[]) {
    this.#sources = sources;
  }

  /**
   * Asks all sources, and waits at most `limitMs` for their answers.
   *
   * @throws {CliError} when a source can never answer, as one whose package is missing.
   */
  async look(limitMs: number, signal: AbortSignal): Promise<void> {
    const asked = Promise.all(this.#sources.map((source) => this.#ask(source)));
    const waited = new AbortController();
    const stop = AbortSignal.any([signal, waited.signal]);
    const timeUp = systemClock.sleep(limitMs, { signal: stop }).catch(() => {});
    try {
      await Promise.race([asked, timeUp]);
    } finally {
      waited.abort();
    }
    asked.catch(() => {}); // it was too late for this look; the next one asks again
  }

  #ask(source: Source): Promise<void> {
    const running = this.#pending.get(source);
    if (running !== undefined) return running;
    const asking = this.#askNow(source).finally(() => this.#pending.delete(source));
    this.#pending.set(source, asking);
    return asking;
  }

  async #askNow(source: Source): Promise<void> {
    try {
      this.#last.set(source, await source.look());
    } catch (error) {
      const failure = toCliError(error);
      if (failure.code === "usage") throw failure;
      const { message, code } = failure;
      this.#last.set(source, { at: source.at, message, code });
    }
  }

  /** Returns the last answers. */
  view(): View {
    const found = this.#sources.map((source): Answer | Away =>
      this.#last.get(source) ?? { at: source.at, message: "no answer yet", code: "unavailable" }
    );
    const answers = found.filter((it) => "queues" in it);
    const all = answers.flatMap((it) => it.queues);
    // Those of mailboxes first: their counts are from the engine itself.
    const queues = all.toSorted((a, b) => Number(isWorkers(a)) - Number(isWorkers(b)));
    return {
      workers: answers.flatMap((it) => it.workers),
      queues: queues.filter((queue, at) => !isShownBefore(queue, queues.slice(0, at))),
      away: found.filter((it) => "code" in it),
    };
  }

  /** Closes the sources. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#sources.map((source) => source.close()));
  }
}

function isWorkers({ at }: QueueRow): boolean {
  return at.startsWith("http");
}

/** Workers report their mailboxes too: a queue of the same name on the same kind of engine is shown once. */
function isShownBefore(queue: QueueRow, before: readonly QueueRow[]): boolean {
  const { name, engine } = queue;
  return isWorkers(queue) && before.some((it) => it.name === name && it.engine === engine);
}

/** Makes the error of a view in which a source is away. */
export function awayError({ away }: View): CliError {
  return new CliError("unavailable", away.map(({ at, message }) => `${at}: ${message}`).join("; "));
}
