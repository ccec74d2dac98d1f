import { checkInterval } from "../_checks.ts";
import { type Clock, systemClock } from "../clock.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import { Answering, type Remembered } from "../loops/answering.ts";
import type { HandlerContext } from "../loops/handler.ts";
import type { DeadLetterReason, Message } from "../mailbox/mailbox.ts";
import type { AgentLoopOptions, ExecuteOptions } from "./agent_options.ts";
import { type AgentRequest, type AgentResult, resultError } from "./agent_request.ts";
import { Attempt, type AttemptInput } from "./_attempt.ts";
import { BudgetTracker, checkBudget } from "./budget.ts";
import type { RunContext } from "./run_context.ts";
import { Session } from "./session.ts";

type RequestMessage<I, O> = Message<AgentRequest<I>, AgentResult<O>>;

/** What came of an attempt; the error itself is there beside its record in the result. */
interface Outcome<O> {
  readonly result: AgentResult<O>;
  readonly session: Session;
  readonly error?: unknown;
}

/** What a request that does not say so itself is called, and the trace it belongs to. */
type Origin = Pick<Message<unknown>, "id" | "trace">;

/** What an agent loop does with a request. */
export class Agent<I, O> {
  readonly #options: AgentLoopOptions<I, O>;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #answering: Answering<AgentResult<O>>;
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
    this.#log = safeLog(options.log);
    this.#answering = new Answering({
      clock: this.#clock,
      log: this.#log,
      nameOf: ({ requestId }) => `request ${requestId}`,
      instead: ({ output: _, ...result }, error) => ({ ...result, error: resultError(error) }),
    });
    this.#workerId = workerId ?? `${name}-${crypto.randomUUID().slice(0, 8)}`;
  }

  /** Works on a message and answers it. Throws when it is to come again. */
  async serve(message: RequestMessage<I, O>, context: HandlerContext): Promise<void> {
    await this.#answering.serve(message, context, (remembered) => {
      return this.#work(message, context, remembered);
    });
  }

  /** Answers a request that is about to be dead-lettered with its error. */
  async refuse(message: RequestMessage<I, O>, reason: DeadLetterReason): Promise<void> {
    // The body may be anything: nothing is believed of it but its names.
    const { requestId, sessionId } = (message.body ?? {}) as unknown as Readonly<
      Record<string, unknown>
    >;
    const isName = (it: unknown) => typeof it === "string" && it !== "";
    const named = isName(requestId) ? { requestId } : {};
    const run = this.#run(named as AgentRequest<I>, message, message.deliveryCount);
    const session = new Session(isName(sessionId) ? sessionId as string : run.runId);
    const error = new Error(reason.error ?? reason.reason);
    const { result } = this.#outcome(run, session, { error });
    await this.#answering.refuse(message, result, reason);
  }

  /** Works on a request that is in no mailbox. */
  async execute(body: AgentRequest<I>, options: ExecuteOptions): Promise<AgentResult<O>> {
    const { signal, beat = () => {}, attempt = 1, onEnd } = options;
    const input = this.#input(body, { id: crypto.randomUUID() }, attempt);
    const { result, ...rest } = await this.#attempt({ ...input, signal, beat });
    onEnd?.({ usage: input.budget.used, ...rest });
    return result;
  }

  async #work(
    message: RequestMessage<I, O>,
    context: HandlerContext,
    remembered: Remembered<AgentResult<O>>,
  ): Promise<AgentResult<O>> {
    const { signal, beat } = context;
    const outcome = await this.#attempt({
      ...this.#input(message.body, message, context.attempt),
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
      return this.#outcome(input.run, attempt.session, { output });
    } catch (error) {
      return this.#outcome(input.run, attempt.session, { error });
    }
  }

  #input(body: AgentRequest<I>, origin: Origin, attempt: number): AttemptInput<I> {
    const { deadlineMs = Infinity, budget } = this.#options;
    return {
      body,
      run: this.#run(body, origin, attempt),
      deadlineMs: body.deadlineMs ?? deadlineMs,
      budget: new BudgetTracker(body.budget ?? budget),
      signal: undefined,
      beat: () => {},
      progress: undefined,
      checkpoint: () => Promise.resolve(),
    };
  }

  #run(request: AgentRequest<I>, origin: Origin, attempt: number): RunContext {
    const { requestId = origin.id, trace = origin.trace } = request;
    return {
      runId: crypto.randomUUID(),
      requestId,
      attempt,
      workerId: this.#workerId,
      ...(trace === undefined ? {} : { trace }),
    };
  }

  #outcome(
    run: RunContext,
    session: Session,
    end: { readonly output: O } | { readonly error: unknown },
  ): Outcome<O> {
    const { requestId } = run;
    const completedAt = this.#clock.now();
    const common = { requestId, sessionId: session.id, runContext: run, completedAt };
    if ("output" in end) return { session, result: { ...common, ...end } };
    const { error } = end;
    return { session, result: { ...common, error: resultError(error) }, error };
  }
}
