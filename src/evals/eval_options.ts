import type { AgentLoop } from "../agents/agent_loop.ts";
import type { MailboxLoopOptions } from "../loops/mailbox_loop.ts";
import type { Mailbox, ReplyMailbox } from "../mailbox/mailbox.ts";
import type { EvalRequest, EvalResult } from "./eval_request.ts";
import type { Evaluator } from "./evaluator.ts";
import type { Experiment } from "./experiment.ts";

/** What is evaluated: an agent for all experiments, or one for each, made when it is first needed. */
export type EvalSubject<I, O> = AgentLoop<I, O> | ((experiment: Experiment) => AgentLoop<I, O>);

/** Options of {@linkcode EvalLoop}. */
export interface EvalLoopOptions<I, O, E> extends
  Omit<
    MailboxLoopOptions<EvalRequest<I, E>, EvalResult<O>>,
    "mailbox" | "handler" | "schema"
  > {
  /** Where samples come from. @default {a mailbox in memory} */
  readonly requests?: Mailbox<EvalRequest<I, E>, EvalResult<O>>;
  /** What is evaluated. Only its `execute` is used: it need not run. */
  readonly agent: EvalSubject<I, O>;
  /** Tells how good an output is. */
  readonly evaluator: Evaluator<O, E>;
  /** Where results go. @default {each request's own reply address} */
  readonly results?: ReplyMailbox<EvalResult<O>>;
  /** Tells by its `trialId` whether a sample is scored already; it is then only acknowledged. */
  readonly isFinished?: (trialId: string) => boolean;
}
