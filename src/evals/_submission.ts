import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import { BaseLoop, type LoopContext, type LoopOptions } from "../lifecycle/base_loop.ts";
import type { Mailbox, ReplyAddress } from "../mailbox/mailbox.ts";
import type { EvalRequest, EvalResult } from "./eval_request.ts";
import { patiently } from "./_patience.ts";
import { sendTrials, type Trial } from "./submit.ts";

/** Options of {@linkcode Submission}. */
export interface SubmissionOptions<I, O, E> extends LoopOptions {
  readonly trials: () => Iterable<Trial<I, E>>;
  readonly isFinished: (trialId: string) => boolean;
  readonly replyTo: ReplyAddress<EvalResult<O>>;
  readonly log?: Log | undefined;
}

/** Sends samples while others work on the first ones already. It ends when all are sent. */
export class Submission<I, O, E> extends BaseLoop {
  readonly #requests: Mailbox<EvalRequest<I, E>, EvalResult<O>>;
  readonly #options: SubmissionOptions<I, O, E>;

  constructor(
    requests: Mailbox<EvalRequest<I, E>, EvalResult<O>>,
    options: SubmissionOptions<I, O, E>,
  ) {
    super("samples", options);
    this.#requests = requests;
    this.#options = options;
  }

  protected override async work({ stopping: signal, beat }: LoopContext): Promise<void> {
    const { trials, isFinished, replyTo } = this.#options;
    const log = safeLog(this.#options.log);
    const patience = { clock: this.clock, log, signal };
    const what = `send to "${this.#requests.name}"`;
    const send = async (id: string, request: EvalRequest<I, E>) => {
      beat();
      await patiently(what, () => this.#requests.send(request, { id, replyTo }), patience);
    };
    try {
      await sendTrials(trials(), send, isFinished, signal);
    } catch (error) {
      if (!signal.aborted) throw error; // what was not sent is sent by the next run
    }
  }
}
