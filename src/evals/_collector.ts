import { checkDuration } from "../_checks.ts";
import { onAbort } from "../_promises.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import { BaseLoop, type LoopContext, type LoopOptions } from "../lifecycle/base_loop.ts";
import { describeIssues } from "../loops/schema.ts";
import type { Mailbox, Message } from "../mailbox/mailbox.ts";
import { type EvalResult, resultIssues } from "./eval_request.ts";
import type { Ledger } from "./_ledger.ts";
import { patiently } from "./_patience.ts";

/** Options of {@linkcode Collector}. */
export interface CollectorOptions extends LoopOptions {
  /** How long to wait for the next result. @default {Infinity} */
  readonly idleMs?: number;
  /** How long to wait for all of them. @default {Infinity} */
  readonly timeoutMs?: number;
  /** Called when there is nothing more to wait for; whoever hears it stops the loop. */
  readonly onEnd?: () => void;
  readonly log?: Log | undefined;
}

type ResultMessage<O> = Message<EvalResult<O>>;

/** Writing results down takes a moment; what a crash has left is there again soon. */
const VISIBILITY_MS = 5_000;
const WAIT_MS = 20_000;
/** Outputs may be large. */
const AT_A_TIME = 100;
/** What belongs to somebody else is left for them, for as long. */
const STRANGE_PAUSE_MS = 1_000;

/**
 * Takes results from their mailbox into a ledger until all are there, the time is up, or it is told to
 * stop. A stop takes what still lies there: those who made it have stopped before.
 */
export class Collector<O> extends BaseLoop {
  readonly #mailbox: Mailbox<EvalResult<O>>;
  readonly #ledger: Ledger<O>;
  readonly #options: CollectorOptions;
  readonly #log: Log;

  constructor(mailbox: Mailbox<EvalResult<O>>, ledger: Ledger<O>, options: CollectorOptions = {}) {
    super("results", options);
    checkDuration("idleMs", options.idleMs ?? Infinity);
    checkDuration("timeoutMs", options.timeoutMs ?? Infinity);
    this.#mailbox = mailbox;
    this.#ledger = ledger;
    this.#options = options;
    this.#log = safeLog(options.log);
  }

  /** Takes what is there, also what a process that crashed had taken and not written down. */
  async sweep(): Promise<void> {
    const endsAt = this.clock.monotonic() + VISIBILITY_MS + STRANGE_PAUSE_MS;
    for (let waitMs = 0; waitMs >= 0; waitMs = endsAt - this.clock.monotonic()) {
      await this.#take(waitMs, undefined);
      while (await this.#take(0, undefined) > 0);
      if (await this.#mailbox.approximateCount() === 0) return;
    }
  }

  protected override async work({ stopping, signal, beat }: LoopContext): Promise<void> {
    const patience = { clock: this.clock, log: this.#log, signal: stopping };
    const { idleMs = Infinity, timeoutMs = Infinity, onEnd } = this.#options;
    const endsAt = this.clock.monotonic() + timeoutMs;
    let idleSince = this.clock.monotonic();
    const leftMs = () => Math.min(endsAt, idleSince + idleMs) - this.clock.monotonic();
    while (!this.#ledger.complete && !stopping.aborted && !this.#mailbox.closed && leftMs() > 0) {
      const waitMs = Math.min(leftMs(), WAIT_MS);
      const { finished } = this.#ledger.progress;
      const take = () => this.#take(waitMs, stopping);
      await patiently(`receive from "${this.#mailbox.name}"`, take, patience).catch((error) => {
        if (!stopping.aborted) throw error;
      });
      if (this.#ledger.progress.finished > finished) idleSince = this.clock.monotonic();
      beat();
    }
    if (onEnd !== undefined && !stopping.aborted) {
      onEnd();
      await new Promise<void>((resolve) => onAbort(stopping, resolve));
    }
    if (stopping.aborted) await this.#takeTheRest(signal);
  }

  async #takeTheRest(signal: AbortSignal): Promise<void> {
    try {
      while (await this.#take(0, signal) > 0);
    } catch (error) {
      const { name } = this.#mailbox;
      this.#log.warn(`what is left in "${name}" is taken by the next run`, { error });
    }
  }

  /** Takes a batch, and tells how many that were. They are written down before they are acknowledged. */
  async #take(waitTimeMs: number, signal: AbortSignal | undefined): Promise<number> {
    const messages = await this.#mailbox.receive({
      maxMessages: AT_A_TIME,
      visibilityTimeoutMs: VISIBILITY_MS,
      waitTimeMs,
      ...(signal === undefined ? {} : { signal }),
    });
    const own: ResultMessage<O>[] = [];
    for (const message of messages) if (await this.#isOwn(message)) own.push(message);
    try {
      await this.#ledger.take(own.map(({ body }) => body));
    } catch (error) {
      await Promise.allSettled(own.map((message) => message.release()));
      throw error;
    }
    await this.#acknowledge(own);
    return messages.length;
  }

  /** An acknowledgement that fails is no harm: the result comes again, and is known. */
  async #acknowledge(messages: readonly ResultMessage<O>[]): Promise<void> {
    try {
      if (messages.length === 0) return;
      if (this.#mailbox.acknowledgeMany !== undefined) {
        await this.#mailbox.acknowledgeMany(messages);
      } else await Promise.all(messages.map((message) => message.acknowledge()));
    } catch (error) {
      this.#log.warn("results could not be acknowledged, and will come again", { error });
    }
  }

  async #isOwn(message: ResultMessage<O>): Promise<boolean> {
    const issues = resultIssues(message.body);
    if (issues.length > 0) {
      const error = describeIssues(issues);
      this.#log.error(`message ${message.id} of "${this.#mailbox.name}" is no result`, { error });
      await message.bury({ reason: "schema", error });
      return false;
    }
    if (message.body.evaluationId === this.#ledger.evaluationId) return true;
    this.#log.debug(`a result of the evaluation "${message.body.evaluationId}" is left for it`);
    await message.nack({ visibilityTimeoutMs: STRANGE_PAUSE_MS, spendsAttempt: false });
    return false;
  }
}
