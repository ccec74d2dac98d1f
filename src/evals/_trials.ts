import type { AgentLoop } from "../agents/agent_loop.ts";
import type { AttemptEnd } from "../agents/agent_options.ts";
import { resultError } from "../agents/agent_request.ts";
import { Session } from "../agents/session.ts";
import { whileWanted } from "../_promises.ts";
import { type Clock, systemClock } from "../clock.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import { Answering } from "../loops/answering.ts";
import type { HandlerContext } from "../loops/handler.ts";
import type { DeadLetterReason, Message } from "../mailbox/mailbox.ts";
import type { EvalLoopOptions } from "./eval_options.ts";
import { type EvalRequest, type EvalResult, isText, trialId, trialIdOf } from "./eval_request.ts";
import type { Experiment } from "./experiment.ts";
import { checkScore, passOrFail, type Score } from "./score.ts";

type RequestMessage<I, O, E> = Message<EvalRequest<I, E>, EvalResult<O>>;

/** What is known of a trial when it ends, in whichever way. */
interface TrialEnd<O> {
  readonly score?: Score;
  readonly output?: O;
  readonly latencyMs: number;
  readonly session: Session;
  readonly usage: AttemptEnd["usage"];
}

const NO_USAGE = { inputTokens: 0, outputTokens: 0 } as const;

/** What an evaluation loop does with a sample: has the agent work on it, and the output scored. */
export class Trials<I, O, E> {
  readonly #options: EvalLoopOptions<I, O, E>;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #answering: Answering<EvalResult<O>>;
  readonly #agents = new Map<string, AgentLoop<I, O>>();

  constructor(name: string, options: EvalLoopOptions<I, O, E>) {
    const { agent, evaluator, results } = options;
    if (typeof agent !== "function" && typeof agent?.execute !== "function") {
      throw new TypeError(
        `Invalid agent of loop "${name}": expected an AgentLoop, or a function that makes one`,
      );
    }
    if (typeof evaluator !== "function") {
      throw new TypeError(`Invalid evaluator of loop "${name}": expected a function`);
    }
    if (results !== undefined && typeof results.send !== "function") {
      throw new TypeError(`Invalid results of loop "${name}": expected a mailbox`);
    }
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#log = safeLog(options.log);
    this.#answering = new Answering({
      clock: this.#clock,
      log: this.#log,
      to: results,
      nameOf: (result) => `sample ${trialIdOf(result)}`,
      instead: ({ output: _, ...result }, error) => failed(result, error),
    });
  }

  /** Works on a sample and sends its result. Throws when it is to come again. */
  async serve(message: RequestMessage<I, O, E>, context: HandlerContext): Promise<void> {
    const { evaluationId, sample, experiment } = message.body;
    if (this.#options.isFinished?.(trialId(evaluationId, experiment.name, sample.id))) return;
    await this.#answering.serve(message, context, () => this.#try(message.body, context));
  }

  /** Sends a failed result for a sample that is about to be dead-lettered. */
  async refuse(message: RequestMessage<I, O, E>, reason: DeadLetterReason): Promise<void> {
    // The body may be anything: without these three nobody could tell what the result is of.
    const { evaluationId, sample, experiment } = Object(message.body) as EvalRequest<I, E>;
    if (![evaluationId, sample?.id, experiment?.name].every(isText)) return;
    const nothing = { latencyMs: 0, session: new Session(), usage: NO_USAGE };
    const error = new Error(reason.error ?? reason.reason);
    const result = failed(this.#result(message.body, nothing), error);
    await this.#answering.refuse(message, result, reason);
  }

  async #try(request: EvalRequest<I, E>, context: HandlerContext): Promise<EvalResult<O>> {
    const startedAt = this.#clock.monotonic();
    let end: TrialEnd<O> = { latencyMs: 0, session: new Session(), usage: NO_USAGE };
    try {
      const output = await this.#execute(request, context, ({ session, usage }) => {
        end = { latencyMs: this.#clock.monotonic() - startedAt, session, usage };
      });
      end = { ...end, output };
      const score = await this.#score(output, request, end.session, context);
      return this.#result(request, { ...end, score });
    } catch (error) {
      // Told to end: given back. With dead letters: tried again, and told when that is no use.
      if (context.signal.aborted || this.#options.deadLetter !== undefined) throw error;
      const result = failed(this.#result(request, end), error);
      this.#log.debug(`sample ${trialIdOf(result)} failed`, { error });
      return result;
    }
  }

  /** Resolves with the output; rejects with the very error there was. */
  async #execute(
    { evaluationId, sample, experiment }: EvalRequest<I, E>,
    { signal, beat, attempt }: HandlerContext,
    onEnd: (end: AttemptEnd) => void,
  ): Promise<O> {
    let failure: AttemptEnd | undefined;
    const requestId = trialId(evaluationId, experiment.name, sample.id);
    const { output } = await this.#agentFor(experiment).execute(
      { request: sample.input, requestId },
      {
        signal,
        beat,
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
    { signal, beat }: HandlerContext,
  ): Promise<Score> {
    const clock = this.#clock;
    const log = this.#log;
    const said = this.#options.evaluator(output, sample.expected, {
      sample,
      experiment,
      session,
      signal,
      beat,
      clock,
      log,
    });
    return checkScore(await whileWanted(Promise.resolve(said), signal));
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
    { score = passOrFail(false), output, latencyMs, usage }: TrialEnd<O>,
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

/** A result of which the error is known, and nothing good. */
function failed<O>(result: EvalResult<O>, cause: unknown): EvalResult<O> {
  const error = resultError(cause);
  return { ...result, score: passOrFail(false, `${error.name}: ${error.message}`), error };
}
