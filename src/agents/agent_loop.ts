import { checkInterval, show } from "../_checks.ts";
import { systemClock } from "../clock.ts";
import { isRetryLaterError } from "../errors.ts";
import { LeaseExtender } from "../lease/lease_extender.ts";
import { safeLog } from "../library_log.ts";
import { Answering, type Remembered } from "../loops/answering.ts";
import { type HandlerContext, unsavedSteps } from "../loops/handler.ts";
import { MailboxLoop } from "../loops/mailbox_loop.ts";
import { InMemoryMailbox } from "../mailbox/in_memory_mailbox.ts";
import type { DeadLetterReason, Message } from "../mailbox/mailbox.ts";
import { systemRandom } from "../random.ts";
import { traceIn } from "../telemetry/trace_context.ts";
import { Attempt, type AttemptInput, type AttemptOptions } from "./_attempt.ts";
import type { RunContext } from "./adapter.ts";
import {
  type AgentLoopOptions,
  type AgentRequest,
  type AgentResult,
  type ExecuteOptions,
  requestSchema,
  resultError,
} from "./agent_types.ts";
import { BudgetTracker, checkBudget } from "./budget.ts";
import { Session } from "./session.ts";

/** Without a heartbeat for this long an attempt is stuck: its lease is not extended. */
const DEFAULT_BEAT_WITHIN_MS = 300_000;

/**
 * Answers requests with a model. `prepare` makes a prompt, the adapter answers it, `finalize` may change
 * the output, and the loop sends the result to the reply address of the request.
 *
 * | event | reply to the requester | request |
 * |---|---|---|
 * | the attempt succeeds | the output | acknowledged |
 * | the attempt fails, no `deadLetter` policy | the error | acknowledged |
 * | the attempt fails, the policy allows another | none yet | retried after a delay |
 * | the last attempt fails | the error | dead-lettered |
 * | the attempt throws a `RetryLaterError` | none yet | retried later, without spending an attempt |
 * | the reply address is unknown here | none | dead-lettered before the model is called |
 * | the reply cannot be sent | none yet | only the reply is retried |
 * | the reply mailbox is gone after the work | none | dead-lettered with the answer |
 * | a stop cancels the attempt | none | released |
 *
 * A request without a reply address is answered for its effect: the result is not sent. When it fails, it is
 * retried and dead-lettered like any message.
 *
 * @example
 * ```ts
 * import { AgentLoop, scriptedAdapter } from "@lastcall/lastcall/agents";
 *
 * const loop = new AgentLoop<{ name: string }, string>({
 *   adapter: scriptedAdapter(({ messages }) => `Hello, ${messages[0]!.content}!`),
 *   prepare: ({ name }) => ({ prompt: { messages: [{ role: "user", content: name }] } }),
 * });
 * const { output } = await loop.execute({ request: { name: "Ada" } });
 * console.assert(output === "Hello, Ada!");
 * ```
 */
export class AgentLoop<I, O = string> extends MailboxLoop<AgentRequest<I>, AgentResult<O>> {
  readonly #agent: Agent<I, O>;

  /**
   * Creates a loop. It does nothing before `run` or `execute`.
   *
   * @throws {TypeError | RangeError} when an option is invalid.
   */
  constructor(options: AgentLoopOptions<I, O>) {
    const { requests, name = requests?.name ?? "agent" } = options;
    const agent = new Agent(name, options);
    super({
      ...options,
      name,
      mailbox: requests ?? new InMemoryMailbox(name),
      lease: leaseOptions(options.lease),
      schema: requestSchema(options.schema),
      handler: (message, context) => agent.handle(message, context),
      onDeadLetter: async (message, reason) => {
        try {
          await agent.replyWithFailure(message, reason);
        } finally {
          await options.onDeadLetter?.(message, reason);
        }
      },
    });
    this.#agent = agent;
  }

  /** Makes one attempt at a request without a mailbox. Resolves with the result, also after a failure. */
  async execute(request: AgentRequest<I>, options: ExecuteOptions = {}): Promise<AgentResult<O>> {
    return await this.#agent.execute(request, options);
  }
}

/** Adds the default of an agent: a lease without heartbeats is not extended. */
function leaseOptions<I, O>(lease: AgentLoopOptions<I, O>["lease"] = {}): typeof lease {
  if (lease === false || lease instanceof LeaseExtender) return lease;
  return { beatWithinMs: DEFAULT_BEAT_WITHIN_MS, ...lease };
}

type RequestMessage<I, O> = Message<AgentRequest<I>, AgentResult<O>>;

/** The default id and trace of a request. */
type Origin = Pick<Message<unknown>, "id" | "headers">;

/** The end of an attempt. After a failure it has the thrown value besides its record in the result. */
interface Outcome<O> {
  readonly result: AgentResult<O>;
  readonly session: Session;
  readonly error?: unknown;
}

/** Handles the requests of an {@linkcode AgentLoop}. */
class Agent<I, O> {
  readonly #options: AgentLoopOptions<I, O> & AttemptOptions<I, O>;
  readonly #answering: Answering<AgentResult<O>>;
  readonly #workerId: string;

  constructor(name: string, options: AgentLoopOptions<I, O>) {
    const { adapter, prepare, deadlineMs, budget, workerId } = options;
    if (typeof adapter?.evaluate !== "function") {
      throw new TypeError(
        `Invalid adapter of loop "${name}": expected an object with an \`evaluate\` method, got ` +
          show(adapter),
      );
    }
    if (typeof prepare !== "function") {
      throw new TypeError(
        `Invalid prepare of loop "${name}": expected a function, got ${show(prepare)}`,
      );
    }
    if (deadlineMs !== undefined && deadlineMs !== Infinity) {
      checkInterval("deadlineMs", deadlineMs);
    }
    if (budget !== undefined) checkBudget(budget);
    const { clock = systemClock } = options;
    const log = safeLog(options.log);
    this.#options = { ...options, clock, log };
    this.#answering = new Answering({
      clock,
      log,
      random: options.random,
      nameOf: ({ requestId }) => `request ${requestId}`,
      instead: ({ output: _, ...result }, error) => ({ ...result, error: resultError(error) }),
    });
    this.#workerId = workerId ?? `${name}-${systemRandom.id().slice(0, 8)}`;
  }

  /** Works on a message and replies to it. Throws when the message must be delivered again. */
  async handle(message: RequestMessage<I, O>, context: HandlerContext): Promise<void> {
    await this.#answering.serve(message, context, (remembered) => {
      return this.#work(message, context, remembered);
    });
  }

  /** Replies with an error to a request that is about to be dead-lettered. */
  async replyWithFailure(message: RequestMessage<I, O>, reason: DeadLetterReason): Promise<void> {
    // The body may have failed validation: read only the two ids, if they are strings.
    const { requestId, sessionId } = (message.body ?? {}) as unknown as Readonly<
      Record<string, unknown>
    >;
    const isText = (it: unknown) => typeof it === "string" && it !== "";
    const named = isText(requestId) ? { requestId } : {};
    const run = this.#runContext(named as AgentRequest<I>, message, message.deliveryCount);
    const session = new Session(isText(sessionId) ? sessionId as string : run.runId);
    const error = new Error(reason.error ?? reason.reason);
    const { result } = this.#outcome(run, session, { error });
    await this.#answering.refuse(message, result, reason);
  }

  async execute(body: AgentRequest<I>, options: ExecuteOptions): Promise<AgentResult<O>> {
    const { signal, beat = () => {}, attempt = 1, onEnd } = options;
    const input = this.#input(body, { id: systemRandom.id(), headers: {} }, attempt);
    const { step = input.step } = options;
    const { result, ...rest } = await this.#attempt({ ...input, signal, beat, step });
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
      step: context.step,
      progress: remembered.progress,
      checkpoint: (progress) => context.checkpoint({ ...remembered, progress }),
    });
    const { result, error } = outcome;
    if (!("error" in outcome)) return result;
    // The loop releases a cancelled message. With a dead-letter policy it retries a failed one, and
    // `replyWithFailure` answers after the last attempt. Without a reply address no requester would learn
    // of the failure, so that the loop's default policy applies.
    const isRetried = this.#options.deadLetter !== undefined || message.replyTo === undefined;
    if (signal.aborted || isRetried || isRetryLaterError(error)) throw error;
    this.#options.log.warn("request failed", { requestId: result.requestId, error });
    return result;
  }

  async #attempt(input: AttemptInput<I>): Promise<Outcome<O>> {
    const attempt = new Attempt<I, O>(this.#options, input);
    try {
      const output = await attempt.run();
      return this.#outcome(input.run, attempt.session, { output });
    } catch (error) {
      return this.#outcome(input.run, attempt.session, { error });
    }
  }

  /** Returns the input of an attempt without a mailbox. `#work` adds what a message provides. */
  #input(body: AgentRequest<I>, origin: Origin, attempt: number): AttemptInput<I> {
    const { deadlineMs = Infinity, budget } = this.#options;
    return {
      body,
      run: this.#runContext(body, origin, attempt),
      deadlineMs: body.deadlineMs ?? deadlineMs,
      budget: new BudgetTracker(body.budget ?? budget),
      signal: undefined,
      beat: () => {},
      progress: undefined,
      checkpoint: () => Promise.resolve(),
      step: unsavedSteps(body.requestId ?? origin.id),
    };
  }

  #runContext(request: AgentRequest<I>, origin: Origin, attempt: number): RunContext {
    const { requestId = origin.id, trace = traceIn(origin.headers) } = request;
    return {
      runId: systemRandom.id(),
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
    const completedAt = this.#options.clock.now();
    const common = { requestId, sessionId: session.id, runContext: run, completedAt };
    if ("output" in end) return { session, result: { ...common, ...end } };
    const { error } = end;
    return { session, result: { ...common, error: resultError(error) }, error };
  }
}
