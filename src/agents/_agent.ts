import { backoffMs } from "../_backoff.ts";
import { checkInterval } from "../_checks.ts";
import { type Clock, systemClock } from "../clock.ts";
import { RetryLaterError } from "../errors.ts";
import { consoleLog, type Log } from "../log.ts";
import type { HandlerContext } from "../loops/handler.ts";
import { isMailboxError } from "../mailbox/errors.ts";
import type { Message } from "../mailbox/mailbox.ts";
import type { AgentLoopOptions } from "./agent_options.ts";
import { type AgentRequest, type AgentResult, resultError } from "./agent_request.ts";
import { Attempt, type AttemptInput } from "./_attempt.ts";
import { BudgetTracker, checkBudget } from "./budget.ts";
import type { RunContext } from "./run_context.ts";

type RequestMessage<I, O> = Message<AgentRequest<I>, AgentResult<O>>;

/** What a message remembers between its deliveries. */
interface Remembered<O> {
  /** What the caller's own steps have saved. */
  readonly progress?: unknown;
  /** The work is done, and only its answer could not be sent. */
  readonly unsent?: { readonly result: AgentResult<O>; readonly times: number };
}

/** What came of an attempt; the error itself is there beside its record in the result. */
interface Outcome<O> {
  readonly result: AgentResult<O>;
  readonly error?: unknown;
}

/** How often an answer is tried before its message is put off. */
const REPLY_ATTEMPTS = 3;
const REPLY_PAUSE_MS = { min: 50, max: 500 } as const;
/** How long it is put off. */
const UNSENT_PAUSE_MS = { min: 1_000, max: 60_000 } as const;

/** What an agent loop does with a request. */
export class Agent<I, O> {
  readonly #options: AgentLoopOptions<I, O>;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #workerId: string;

  constructor(name: string, options: AgentLoopOptions<I, O>) {
    const { adapter, prepare, deadlineMs, budget, workerId } = options;
    if (typeof adapter?.evaluate !== "function") {
      throw new TypeError(`Invalid adapter of loop "${name}": expected one with \`evaluate\``);
    }
    if (typeof prepare !== "function") {
      throw new TypeError(`Invalid prepare of loop "${name}": expected a function`);
    }
    if (deadlineMs !== undefined && deadlineMs !== Infinity) {
      checkInterval("deadlineMs", deadlineMs);
    }
    if (budget !== undefined) checkBudget(budget);
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#log = options.log ?? consoleLog;
    this.#workerId = workerId ?? `${name}-${crypto.randomUUID().slice(0, 8)}`;
  }

  /** Works on a message and answers it. Throws when it is to come again. */
  async serve(message: RequestMessage<I, O>, context: HandlerContext): Promise<void> {
    const remembered = (message.checkpoint ?? {}) as Remembered<O>;
    const result = remembered.unsent?.result ?? await this.#work(message, context, remembered);
    await context.endLease();
    const error = await this.#reply(message, result);
    if (error === undefined) return;
    const times = (remembered.unsent?.times ?? 0) + 1;
    await message.saveCheckpoint({ ...remembered, unsent: { result, times } });
    throw new RetryLaterError(`The answer to request ${result.requestId} could not be sent`, {
      cause: error,
      delayMs: backoffMs(times, UNSENT_PAUSE_MS.min, UNSENT_PAUSE_MS.max),
    });
  }

  /** Tells whoever waits for an answer that there will be none. */
  async refuse(message: RequestMessage<I, O>, error: Error): Promise<void> {
    // The body may be anything: nothing is believed of it but its names.
    const { requestId, sessionId } = (message.body ?? {}) as unknown as Readonly<
      Record<string, unknown>
    >;
    const isName = (it: unknown) => typeof it === "string" && it !== "";
    const named = isName(requestId) ? { requestId } : {};
    const run = this.#run(named as AgentRequest<I>, message.id, message.deliveryCount);
    const session = isName(sessionId) ? sessionId as string : run.runId;
    const { result } = this.#outcome(run, session, { error });
    const unsent = await this.#reply(message, result);
    if (unsent !== undefined) throw unsent;
  }

  /** Works on a request that is in no mailbox. */
  async execute(
    body: AgentRequest<I>,
    signal: AbortSignal | undefined,
  ): Promise<AgentResult<O>> {
    const { result } = await this.#attempt({
      ...this.#input(body, crypto.randomUUID(), 1),
      signal,
    });
    return result;
  }

  async #work(
    message: RequestMessage<I, O>,
    context: HandlerContext,
    remembered: Remembered<O>,
  ): Promise<AgentResult<O>> {
    const { signal, beat } = context;
    const outcome = await this.#attempt({
      ...this.#input(message.body, message.id, context.attempt),
      signal,
      beat,
      progress: remembered.progress,
      checkpoint: (progress) => context.checkpoint({ ...remembered, progress }),
    });
    const { result, error } = outcome;
    if (!("error" in outcome)) return result;
    // Told to end: given back. With dead letters: tried again, and answered when that is no use.
    if (signal.aborted || this.#options.deadLetter !== undefined) throw error;
    this.#log.warn(`request ${result.requestId} failed`, { error });
    return result;
  }

  async #attempt(input: AttemptInput<I>): Promise<Outcome<O>> {
    const { adapter, prepare, finalize, captureBundle } = this.#options;
    const parts = { adapter, prepare, finalize, captureBundle, clock: this.#clock, log: this.#log };
    const attempt = new Attempt<I, O>(parts, input);
    try {
      const output = await attempt.make();
      return this.#outcome(input.run, attempt.session.id, { output });
    } catch (error) {
      return this.#outcome(input.run, attempt.session.id, { error });
    }
  }

  #input(body: AgentRequest<I>, id: string, attempt: number): AttemptInput<I> {
    const { deadlineMs = Infinity, budget } = this.#options;
    return {
      body,
      run: this.#run(body, id, attempt),
      deadlineMs: body.deadlineMs ?? deadlineMs,
      budget: new BudgetTracker(body.budget ?? budget),
      signal: undefined,
      beat: () => {},
      progress: undefined,
      checkpoint: () => Promise.resolve(),
    };
  }

  #run({ requestId, trace }: AgentRequest<I>, id: string, attempt: number): RunContext {
    return {
      runId: crypto.randomUUID(),
      requestId: requestId ?? id,
      attempt,
      workerId: this.#workerId,
      ...(trace === undefined ? {} : { trace }),
    };
  }

  #outcome(
    run: RunContext,
    sessionId: string,
    end: { readonly output: O } | { readonly error: unknown },
  ): Outcome<O> {
    const { requestId } = run;
    const common = { requestId, sessionId, runContext: run, completedAt: this.#clock.now() };
    if ("output" in end) return { result: { ...common, ...end } };
    return { result: { ...common, error: resultError(end.error) }, error: end.error };
  }

  /** Sends the answer. Resolves with what went wrong, if that may pass. */
  async #reply(message: RequestMessage<I, O>, result: AgentResult<O>): Promise<unknown> {
    const { requestId } = result;
    if (message.replyTo === undefined) {
      this.#log.warn(`request ${requestId} has no reply address: its result is dropped`);
      return undefined;
    }
    for (let attempt = 1;; attempt++) {
      try {
        return void await message.reply(result);
      } catch (error) {
        const gone = isMailboxError(error, "ReplyNotAvailableError") ||
          isMailboxError(error, "MailboxClosedError");
        if (gone) {
          this.#log.error(`nobody can be told the result of request ${requestId}`, { error });
          return undefined;
        }
        if (attempt === REPLY_ATTEMPTS) return error;
        await this.#clock.sleep(backoffMs(attempt, REPLY_PAUSE_MS.min, REPLY_PAUSE_MS.max));
      }
    }
  }
}
