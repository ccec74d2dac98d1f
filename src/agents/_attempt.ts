import type { Clock } from "../clock.ts";
import { DeadlineExceededError } from "../errors.ts";
import type { Log } from "../log.ts";
import type { HandlerContext } from "../loops/handler.ts";
import { abortable, onAbort } from "../_promises.ts";
import { answerPieces, NoAnswerError, type Prompt, type RunContext } from "./adapter.ts";
import type { AgentContext, AgentLoopOptions, AgentRequest } from "./agent_types.ts";
import type { BudgetTracker } from "./budget.ts";
import { Session } from "./session.ts";

/** The options of the loop that an attempt uses. */
export type AttemptOptions<I, O> =
  & Pick<AgentLoopOptions<I, O>, "adapter" | "prepare" | "finalize" | "captureBundle">
  & { readonly clock: Clock; readonly log: Log };

/** The data of one attempt. */
export interface AttemptInput<I> {
  readonly body: AgentRequest<I>;
  readonly run: RunContext;
  readonly deadlineMs: number;
  readonly budget: BudgetTracker;
  /** Cancels the attempt. */
  readonly signal: AbortSignal | undefined;
  readonly beat: () => void;
  readonly progress: unknown;
  readonly checkpoint: (progress: unknown) => Promise<void>;
  readonly step: HandlerContext["step"];
}

/**
 * Makes one attempt at a request.
 *
 * ```text
 * prepare ─▶ evaluate ─▶ parse ─▶ finalize ─▶ output
 *    └── on success and on failure ──▶ capture the bundle ─▶ clean up, once
 * ```
 *
 * The attempt ends at its deadline, also when a callback ignores the signal.
 */
export class Attempt<I, O> {
  readonly #options: AttemptOptions<I, O>;
  readonly #input: AttemptInput<I>;
  readonly #abort = new AbortController();
  readonly #startedAt: number;
  #prompt: Prompt<O> | undefined;
  #session: Session;
  #ended = false;

  constructor(options: AttemptOptions<I, O>, input: AttemptInput<I>) {
    this.#options = options;
    this.#input = input;
    this.#startedAt = options.clock.now();
    this.#session = new Session(input.body.sessionId);
  }

  /** The session that `prepare` returned, or else a new one with the request's session id. */
  get session(): Session {
    return this.#session;
  }

  /** Resolves with the output, or rejects with the failure, after the cleanup. */
  async run(): Promise<O> {
    const { deadlineMs, signal } = this.#input;
    const unlink = onAbort(signal, () => this.#abort.abort(signal!.reason));
    const cancel = this.#options.clock.schedule(deadlineMs, () => {
      this.#abort.abort(new DeadlineExceededError(deadlineMs));
    });
    let outcome: { readonly output: O } | { readonly error: unknown };
    try {
      outcome = { output: await this.#work() };
    } catch (error) {
      // After an abort, other errors are its consequences: report the reason of the abort.
      outcome = { error: this.#abort.signal.aborted ? this.#abort.signal.reason : error };
    } finally {
      cancel();
      unlink();
    }
    await this.#capture(outcome);
    this.#ended = true;
    await this.#cleanUp(this.#prompt);
    if ("error" in outcome) throw outcome.error;
    return outcome.output;
  }

  async #work(): Promise<O> {
    const { adapter, finalize } = this.#options;
    const context = this.#context;
    context.signal.throwIfAborted();
    const prompt = await this.#prepare(context);
    const answer = await this.#evaluate(prompt);
    if (answer === "") {
      throw new NoAnswerError(`Adapter "${adapter.name}" returned an empty answer`);
    }
    const parsed = prompt.parse === undefined
      ? answer as O
      : await this.#unlessAborted(prompt.parse(answer));
    if (finalize === undefined) return parsed;
    this.#input.beat();
    const final = await this.#unlessAborted(finalize(parsed, context));
    return final === undefined ? parsed : final as O;
  }

  async #prepare(context: AgentContext): Promise<Prompt<O>> {
    const preparing = Promise.resolve(this.#options.prepare(this.#input.body.request, context));
    await this.#unlessAborted(preparing.then(async ({ prompt, session }) => {
      // The attempt did not wait for this prompt, but must release its resources.
      if (this.#ended) return void await this.#cleanUp(prompt);
      this.#prompt = prompt;
      if (session !== undefined) this.#session = session;
      this.#session.record(...prompt.messages);
    }));
    return this.#prompt!;
  }

  async #evaluate(prompt: Prompt<O>): Promise<string> {
    const { adapter, log } = this.#options;
    const { run, budget, beat } = this.#input;
    const { signal } = this.#abort;
    const call = { signal, run, budget, beat, step: this.#step, log };
    let answer = "";
    beat();
    try {
      for await (const piece of answerPieces(adapter, prompt, call)) {
        answer += piece;
        beat();
      }
      return answer;
    } finally {
      this.#session.spent(budget.used);
      if (answer !== "") this.#session.record({ role: "assistant", content: answer });
    }
  }

  async #unlessAborted<T>(value: T | Promise<T>): Promise<T> {
    return await abortable(Promise.resolve(value), this.#abort.signal);
  }

  async #capture(outcome: { readonly output?: O; readonly error?: unknown }): Promise<void> {
    const { captureBundle, clock, log } = this.#options;
    const { body, run } = this.#input;
    if (captureBundle === undefined || body.bundle === false) return;
    try {
      await captureBundle({
        ...outcome,
        request: body,
        runContext: run,
        prompt: this.#prompt,
        session: this.#session,
        startedAt: this.#startedAt,
        completedAt: clock.now(),
      });
    } catch (error) {
      log.warn("bundle capture failed", { requestId: run.requestId, error });
    }
  }

  async #cleanUp(prompt: Prompt<O> | undefined): Promise<void> {
    try {
      await prompt?.cleanup?.();
    } catch (error) {
      const { requestId } = this.#input.run;
      this.#options.log.warn("prompt cleanup failed", { requestId, error });
    }
  }

  get #context(): AgentContext {
    const { run, budget, beat, progress, checkpoint } = this.#input;
    const { signal } = this.#abort;
    const { log } = this.#options;
    return { run, signal, budget, beat, progress, checkpoint, step: this.#step, log };
  }

  /** Runs a step, unless the attempt has been aborted. Its begin and its end are heartbeats. */
  get #step(): HandlerContext["step"] {
    const { step, beat } = this.#input;
    const { signal } = this.#abort;
    return async (name, run) => {
      signal.throwIfAborted();
      beat();
      const result = await step(name, run);
      beat();
      return result;
    };
  }
}
