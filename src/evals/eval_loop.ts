import { MailboxLoop } from "../loops/mailbox_loop.ts";
import { InMemoryMailbox } from "../mailbox/in_memory_mailbox.ts";
import type { EvalLoopOptions } from "./eval_options.ts";
import { type EvalRequest, type EvalResult, requestSchema } from "./eval_request.ts";
import { Trials } from "./_trials.ts";

/**
 * Runs samples of evaluations: an agent works on each, an evaluator scores the output, and the result goes
 * to the request's reply address. Any number of these loops, in any number of processes, can share the
 * work; see `evaluate` for all of it in one call.
 *
 * | what happens | what the collector hears | what becomes of the request |
 * |---|---|---|
 * | there is a score, good or bad | the result | acknowledged |
 * | the agent or the evaluator fails, and there is no `deadLetter` policy | a failed result with the error | acknowledged |
 * | it fails, and may be tried again | nothing yet | tried again after a pause |
 * | it has failed for good | a failed result with the error | buried |
 * | the result cannot be sent | nothing yet | only the result is sent again, nothing is scored twice |
 * | a stop cuts it short | nothing | given back |
 *
 * @example
 * ```ts
 * import { AgentLoop, EvalLoop, InMemoryMailbox } from "@lastcall/lastcall";
 * import { scriptedAdapter } from "@lastcall/lastcall/agents";
 * import { Dataset, type EvalRequest, type EvalResult, exactMatch, submitDataset } from "@lastcall/lastcall/evals";
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
  /** Checks the options; nothing happens before `run`. */
  constructor(options: EvalLoopOptions<I, O, E>) {
    const { requests, name = requests?.name ?? "evaluation" } = options;
    const trials = new Trials(name, options);
    super({
      ...options,
      name,
      mailbox: requests ?? new InMemoryMailbox(name),
      schema: requestSchema<I, E>(),
      handler: (message, context) => trials.serve(message, context),
      onBury: async (message, reason) => {
        await trials.refuse(message, reason);
        await options.onBury?.(message, reason);
      },
    });
  }
}
