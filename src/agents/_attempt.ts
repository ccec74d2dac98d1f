import type { Cancel, Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import { onAbort, whileWanted } from "../_promises.ts";
import type { Adapter, Prompt } from "./adapter.ts";
import type { AgentBundle, AgentContext, AgentLoopOptions, Prepared } from "./agent_options.ts";
import type { AgentRequest } from "./agent_request.ts";
import type { BudgetTracker } from "./budget.ts";
import { DeadlineExceededError, NoAnswerError } from "./errors.ts";
import type { RunContext } from "./run_context.ts";
import { Session } from "./session.ts";

/** What an attempt is made of. */
export interface AttemptParts<I, O> {
  readonly adapter: Adapter;
  readonly prepare: (request: I, context: AgentContext) => Prepared<O> | Promise<Prepared<O>>;
  readonly finalize: AgentLoopOptions<I, O>["finalize"] | undefined;
  readonly captureBundle: ((bundle: AgentBundle<I, O>) => Promise<void> | void) | undefined;
  readonly clock: Clock;
  readonly log: Log;
}

/** What is known of this one. */
export interface AttemptInput<I> {
  readonly body: AgentRequest<I>;
  readonly run: RunContext;
  readonly deadlineMs: number;
  readonly budget: BudgetTracker;
  /** Aborted when whoever asked for it does not want it any more. */
  readonly signal: AbortSignal | undefined;
  readonly beat: () => void;
  readonly progress: unknown;
  readonly checkpoint: (progress: unknown) => Promise<void>;
}

/**
 * One attempt at a request.
 *
 * ```text
 * prepare ─▶ evaluate ─▶ parse ─▶ finalize ─▶ output
 *    └── whatever happens ──▶ capture the bundle ─▶ clean up, once
 * ```
 *
 * Nothing outlasts the deadline: whoever does not listen to the signal is not waited for.
 */
export class Attempt<I, O> {
  readonly #parts: AttemptParts<I, O>;
  readonly #input: AttemptInput<I>;
  readonly #abort = new AbortController();
  readonly #startedAt: number;
  #prompt: Prompt<O> | undefined;
  #session: Session;
  #over = false;

  constructor(parts: AttemptParts<I, O>, input: AttemptInput<I>) {
    this.#parts = parts;
    this.#input = input;
    this.#startedAt = parts.clock.now();
    this.#session = new Session(input.body.sessionId);
  }

  /** The one that was prepared, or that was asked for. */
  get session(): Session {
    return this.#session;
  }

  /** Resolves with the output; rejects with why there is none. Everything is cleaned up by then. */
  async make(): Promise<O> {
    const { clock } = this.#parts;
    const { deadlineMs, signal } = this.#input;
    const unlink = onAbort(signal, () => this.#abort.abort(signal!.reason));
    const cancel: Cancel = clock.schedule(deadlineMs, () => {
      this.#abort.abort(new DeadlineExceededError(deadlineMs));
    });
    let outcome: { readonly output: O } | { readonly error: unknown };
    try {
      outcome = { output: await this.#work() };
    } catch (error) {
      // What failed because it was told to end has no better reason than that.
      outcome = { error: this.#abort.signal.aborted ? this.#abort.signal.reason : error };
    } finally {
      cancel();
      unlink();
    }
    await this.#capture(outcome);
    this.#over = true;
    await this.#cleanUp(this.#prompt);
    if ("error" in outcome) throw outcome.error;
    return outcome.output;
  }

  async #work(): Promise<O> {
    const { adapter, finalize } = this.#parts;
    const context = this.#context;
    context.signal.throwIfAborted();
    const prompt = await this.#prepare(context);
    const answer = await this.#evaluate(prompt);
    if (answer === "") throw new NoAnswerError(`The adapter "${adapter.name}" returned nothing`);
    const parsed = prompt.parse === undefined
      ? answer as O
      : await this.#wanted(Promise.resolve(prompt.parse(answer)));
    if (finalize === undefined) return parsed;
    const final = await this.#wanted(Promise.resolve(finalize(parsed, context)));
    return final === undefined ? parsed : final as O;
  }

  async #prepare(context: AgentContext): Promise<Prompt<O>> {
    const preparing = Promise.resolve(this.#parts.prepare(this.#input.body.request, context));
    const taken = preparing.then(async ({ prompt, session }) => {
      // Nobody waited for it, but what it holds is given back.
      if (this.#over) return void await this.#cleanUp(prompt);
      this.#prompt = prompt;
      if (session !== undefined) this.#session = session;
      this.#session.record(...prompt.messages);
    });
    await this.#wanted(taken);
    return this.#prompt!;
  }

  async #evaluate(prompt: Prompt<O>): Promise<string> {
    const { adapter, log } = this.#parts;
    const { run, budget, beat } = this.#input;
    const { signal } = this.#abort;
    const pieces = adapter.evaluate(prompt, { signal, run, budget, log })[Symbol.asyncIterator]();
    let answer = "";
    try {
      for (;;) {
        const { done, value } = await this.#wanted(pieces.next());
        if (done) return answer;
        answer += value;
        beat();
      }
    } catch (error) {
      pieces.return?.().catch(() => {}); // it may hang, and is not waited for
      throw error;
    } finally {
      this.#session.spent(budget.used);
      if (answer !== "") this.#session.record({ role: "assistant", content: answer });
    }
  }

  /** The same promise, as long as its value is wanted. */
  async #wanted<T>(promise: Promise<T>): Promise<T> {
    return await whileWanted(promise, this.#abort.signal);
  }

  async #capture(outcome: { readonly output?: O; readonly error?: unknown }): Promise<void> {
    const { captureBundle, clock, log } = this.#parts;
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
      log.warn(`the bundle of request ${run.requestId} was not captured`, { error });
    }
  }

  async #cleanUp(prompt: Prompt<O> | undefined): Promise<void> {
    const { requestId } = this.#input.run;
    try {
      await prompt?.cleanup?.();
    } catch (error) {
      this.#parts.log.warn(`the prompt of request ${requestId} was not cleaned up`, { error });
    }
  }

  get #context(): AgentContext {
    const { run, budget, beat, progress, checkpoint } = this.#input;
    const { signal } = this.#abort;
    return { run, signal, budget, beat, progress, checkpoint, log: this.#parts.log };
  }
}
