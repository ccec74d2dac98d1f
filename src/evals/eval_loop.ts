import type { AgentLoop } from "../agents/agent_loop.ts";
import { type AttemptEnd, resultError } from "../agents/agent_types.ts";
import { Session } from "../agents/session.ts";
import { show } from "../_checks.ts";
import { type Clock, systemClock } from "../clock.ts";
import { isRetryLaterError } from "../errors.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import { Answering } from "../loops/answering.ts";
import type { HandlerContext } from "../loops/handler.ts";
import { MailboxLoop, type MailboxLoopOptions } from "../loops/mailbox_loop.ts";
import { InMemoryMailbox } from "../mailbox/in_memory_mailbox.ts";
import type { DeadLetterReason, Mailbox, Message, ReplyMailbox } from "../mailbox/mailbox.ts";
import { abortable } from "../_promises.ts";
import type { Experiment } from "./dataset.ts";
import {
  type EvalRequest,
  type EvalResult,
  isText,
  requestSchema,
  trialId,
  trialIdOf,
} from "./eval_request.ts";
import { type Evaluator, passOrFail, type Score, toScore } from "./evaluators.ts";

/** The agent to evaluate: one for all experiments, or a function that creates one for each experiment. */
export type EvalSubject<I, O> = AgentLoop<I, O> | ((experiment: Experiment) => AgentLoop<I, O>);

/** Options of {@linkcode EvalLoop}. */
export interface EvalLoopOptions<I, O, E> extends
  Omit<
    MailboxLoopOptions<EvalRequest<I, E>, EvalResult<O>>,
    "mailbox" | "handler" | "schema"
  > {
  /** The mailbox that the loop receives samples from. @default {a new `InMemoryMailbox`} */
  readonly requests?: Mailbox<EvalRequest<I, E>, EvalResult<O>>;
  /** The agent to evaluate. The loop calls only its `execute`, so it does not have to run. */
  readonly agent: EvalSubject<I, O>;
  /** Scores the outputs. */
  readonly evaluator: Evaluator<O, E>;
  /** The mailbox for all results. @default {the reply address of each request} */
  readonly results?: ReplyMailbox<EvalResult<O>>;
  /** Returns true when a trial has a result already. The loop then only acknowledges its request. */
  readonly isFinished?: (trialId: string) => boolean;
}

/**
 * Evaluates samples. The agent answers each sample, the evaluator scores the output, and the loop sends the
 * result to the reply address of the request. Several loops in several processes can share the work.
 * `evaluate` runs a whole evaluation in one call.
 *
 * | event | result | request |
 * |---|---|---|
 * | the evaluator returns a score | the score | acknowledged |
 * | agent or evaluator fails, no `deadLetter` policy | a failed score with the error | acknowledged |
 * | agent or evaluator fails, the policy allows another attempt | none yet | retried after a delay |
 * | the last attempt fails | a failed score with the error | dead-lettered |
 * | agent or evaluator throws a `RetryLaterError` | none yet | retried later, without spending an attempt |
 * | no `results`, and no reply address that is known here | none | dead-lettered before the agent runs |
 * | the result cannot be sent | none yet | only sending is retried |
 * | the mailbox for results is gone after the work | none | dead-lettered with the result |
 * | a stop cancels the attempt | none | released |
 *
 * @example
 * ```ts
 * import { InMemoryMailbox } from "@lastcall/lastcall";
 * import { AgentLoop, scriptedAdapter } from "@lastcall/lastcall/agents";
 * import {
 *   Dataset,
 *   EvalLoop,
 *   type EvalRequest,
 *   type EvalResult,
 *   exactMatch,
 *   submitDataset,
 * } from "@lastcall/lastcall/evals";
 *
 * const requests = new InMemoryMailbox<EvalRequest<string, string>, EvalResult<string>>("requests");
 * const results = new InMemoryMailbox<EvalResult<string>>("results");
 * const loop = new EvalLoop({
 *   requests,
 *   agent: new AgentLoop<string>({
 *     adapter: scriptedAdapter(["Paris"]),
 *     prepare: (content) => ({ prompt: { messages: [{ role: "user", content }] } }),
 *   }),
 *   evaluator: exactMatch<string>,
 * });
 * const dataset = new Dataset([{ id: "fr", input: "The capital of France?", expected: "Paris" }]);
 * await submitDataset(requests, { evaluationId: "capitals", dataset, replyTo: results });
 * await loop.run({ maxIterations: 1 });
 * const [message] = await results.receive();
 * console.assert(message?.body.score.passed);
 * ```
 */
export class EvalLoop<I, O = string, E = unknown>
  extends MailboxLoop<EvalRequest<I, E>, EvalResult<O>> {
  /**
   * Creates a loop. It does nothing before `run`.
   *
   * @throws {TypeError | RangeError} when an option is invalid.
   */
  constructor(options: EvalLoopOptions<I, O, E>) {
    const { requests, name = requests?.name ?? "evaluation" } = options;
    const trials = new TrialHandler(name, options);
    super({
      ...options,
      name,
      mailbox: requests ?? new InMemoryMailbox(name),
      schema: requestSchema<I, E>(),
      handler: (message, context) => trials.handle(message, context),
      onDeadLetter: async (message, reason) => {
        try {
          await trials.sendFailure(message, reason);
        } finally {
          await options.onDeadLetter?.(message, reason);
        }
      },
    });
  }
}

type RequestMessage<I, O, E> = Message<EvalRequest<I, E>, EvalResult<O>>;

/** The parts of a result that are known so far. */
interface Measured<O> extends Pick<AttemptEnd, "session" | "usage"> {
  readonly output?: O;
  readonly score?: Score;
  readonly latencyMs: number;
}

/** Handles the requests of an {@linkcode EvalLoop}. */
class TrialHandler<I, O, E> {
  readonly #options: EvalLoopOptions<I, O, E>;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #answering: Answering<EvalResult<O>>;
  readonly #agents = new Map<string, AgentLoop<I, O>>();

  constructor(name: string, options: EvalLoopOptions<I, O, E>) {
    const { agent, evaluator, results } = options;
    const check = (option: string, value: unknown, valid: boolean, expected: string) => {
      if (valid) return;
      const got = show(value);
      throw new TypeError(`Invalid ${option} of loop "${name}": expected ${expected}, got ${got}`);
    };
    const isAgent = typeof agent === "function" || typeof agent?.execute === "function";
    check("agent", agent, isAgent, "an AgentLoop, or a function that creates one");
    check("evaluator", evaluator, typeof evaluator === "function", "a function");
    const isMailbox = results === undefined || typeof results.send === "function";
    check("results", results, isMailbox, "a mailbox");
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#log = safeLog(options.log);
    this.#answering = new Answering({
      clock: this.#clock,
      log: this.#log,
      random: options.random,
      to: results,
      noAddress: "Send it with `replyTo`, or pass `results` to the EvalLoop",
      nameOf: (result) => `sample ${trialIdOf(result)}`,
      instead: ({ output: _, ...result }, error) => withError(result, error),
    });
  }

  /** Evaluates a sample and sends its result. Throws when the message must be delivered again. */
  async handle(message: RequestMessage<I, O, E>, context: HandlerContext): Promise<void> {
    const { evaluationId, sample, experiment } = message.body;
    if (this.#options.isFinished?.(trialId(evaluationId, experiment.name, sample.id))) return;
    await this.#answering.serve(message, context, () => this.#evaluate(message.body, context));
  }

  /** Sends a failed result for a sample that is about to be dead-lettered. */
  async sendFailure(message: RequestMessage<I, O, E>, reason: DeadLetterReason): Promise<void> {
    // The body may have failed validation: without these three ids no collector can use a result.
    const { evaluationId, sample, experiment } = Object(message.body) as EvalRequest<I, E>;
    if (![evaluationId, sample?.id, experiment?.name].every(isText)) return;
    const error = new Error(reason.error ?? reason.reason);
    const result = withError(this.#result(message.body, nothingMeasured()), error);
    await this.#answering.refuse(message, result, reason);
  }

  async #evaluate(request: EvalRequest<I, E>, context: HandlerContext): Promise<EvalResult<O>> {
    const startedAt = this.#clock.monotonic();
    let measured: Measured<O> = nothingMeasured();
    try {
      const output = await this.#runAgent(request, context, ({ session, usage }) => {
        measured = { latencyMs: this.#clock.monotonic() - startedAt, session, usage };
      });
      measured = { ...measured, output };
      const score = await this.#score(output, request, measured.session, context);
      return this.#result(request, { ...measured, score });
    } catch (error) {
      // The loop releases a cancelled message. With a dead-letter policy it retries a failed one, and
      // `sendFailure` sends the result after the last attempt.
      const isRetried = this.#options.deadLetter !== undefined || isRetryLaterError(error);
      if (context.signal.aborted || isRetried) throw error;
      const result = withError(this.#result(request, measured), error);
      this.#log.debug("sample failed", { trialId: trialIdOf(result), error });
      return result;
    }
  }

  /** Resolves with the agent's output, or rejects with the error that the agent threw. */
  async #runAgent(
    { evaluationId, sample, experiment }: EvalRequest<I, E>,
    { signal, beat, step, attempt }: HandlerContext,
    onEnd: (end: AttemptEnd) => void,
  ): Promise<O> {
    let failure: AttemptEnd | undefined;
    const requestId = trialId(evaluationId, experiment.name, sample.id);
    const { output } = await this.#agentFor(experiment).execute(
      { request: sample.input, requestId },
      {
        signal,
        beat,
        step,
        attempt,
        onEnd(end) {
          if ("error" in end) failure = end;
          onEnd(end);
        },
      },
    );
    if (failure !== undefined) throw failure.error;
    return output as O;
  }

  async #score(
    output: O,
    { sample, experiment }: EvalRequest<I, E>,
    session: Session,
    { signal, beat, step }: HandlerContext,
  ): Promise<Score> {
    const context = { sample, experiment, session, signal, beat, step };
    const returned = this.#options.evaluator(output, sample.expected, {
      ...context,
      clock: this.#clock,
      log: this.#log,
    });
    return toScore(await abortable(Promise.resolve(returned), signal));
  }

  #agentFor(experiment: Experiment): AgentLoop<I, O> {
    const { agent } = this.#options;
    if (typeof agent !== "function") return agent;
    const key = JSON.stringify([experiment.name, experiment.variables]);
    const known = this.#agents.get(key) ?? agent(experiment);
    this.#agents.set(key, known);
    return known;
  }

  #result(
    { evaluationId, sample, experiment }: EvalRequest<I, E>,
    { score = passOrFail(false), output, latencyMs, usage }: Measured<O>,
  ): EvalResult<O> {
    return {
      evaluationId,
      sampleId: sample.id,
      experiment: experiment.name,
      score,
      ...(output === undefined ? {} : { output }),
      latencyMs,
      usage,
      completedAt: this.#clock.now(),
    };
  }
}

function nothingMeasured(): Measured<never> {
  return { latencyMs: 0, session: new Session(), usage: { inputTokens: 0, outputTokens: 0 } };
}

/** Returns the result as a failed one. */
function withError<O>(result: EvalResult<O>, cause: unknown): EvalResult<O> {
  const error = resultError(cause);
  return { ...result, score: passOrFail(false, `${error.name}: ${error.message}`), error };
}
