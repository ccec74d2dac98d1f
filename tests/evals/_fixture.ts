import type { Adapter } from "../../src/agents/adapter.ts";
import { scriptedAdapter } from "../../src/agents/adapter.ts";
import { AgentLoop } from "../../src/agents/agent_loop.ts";
import type { AgentLoopOptions } from "../../src/agents/agent_types.ts";
import { Dataset } from "../../src/evals/dataset.ts";
import { EvalLoop, type EvalLoopOptions } from "../../src/evals/eval_loop.ts";
import type { EvalRequest, EvalResult } from "../../src/evals/eval_request.ts";
import { exactMatch } from "../../src/evals/evaluators.ts";
import { submitDataset } from "../../src/evals/submit.ts";
import type { Log } from "../../src/log.ts";
import { FaultyMailbox, VirtualClock } from "../../src/testing/mod.ts";

export type Options = Partial<EvalLoopOptions<string, string, string>>;

/** Mailboxes on a virtual clock, an agent that answers in upper case, and loops that evaluate it. */
export class Fixture {
  readonly clock: VirtualClock = new VirtualClock();
  readonly requests: FaultyMailbox<EvalRequest<string, string>, EvalResult<string>>;
  readonly results: FaultyMailbox<EvalResult<string>>;
  /** Messages of all warnings and errors, without their properties. */
  readonly logged: string[] = [];
  readonly log: Log = {
    debug: () => {},
    info: () => {},
    warn: (message) => void this.logged.push(message),
    error: (message) => void this.logged.push(message),
  };
  /** The prompts that the model received. */
  readonly asked: string[] = [];
  /** The delay of each answer. */
  delayMs = 0;

  constructor() {
    const { clock, log } = this;
    this.requests = new FaultyMailbox("requests", { clock, log });
    this.results = new FaultyMailbox("results", { clock, log });
  }

  /** Returns samples `s1`, `s2`, … whose input is their id. Odd ones expect the output of the agent. */
  static samples(count: number): Dataset<string, string> {
    return new Dataset(Array.from({ length: count }, (_, i) => {
      const id = `s${i + 1}`;
      return { id, input: id, expected: i % 2 === 0 ? id.toUpperCase() : "something else" };
    }));
  }

  get adapter(): Adapter {
    const { clock, delayMs } = this;
    return scriptedAdapter(({ messages }) => {
      const { content } = messages.at(-1)!;
      this.asked.push(content);
      return content.toUpperCase();
    }, { clock, delayMs });
  }

  agent(options: Partial<AgentLoopOptions<string, string>> = {}): AgentLoop<string> {
    const { clock, log } = this;
    return new AgentLoop<string>({
      adapter: this.adapter,
      prepare: (content) => ({ prompt: { messages: [{ role: "user", content }] } }),
      clock,
      log,
      ...options,
    });
  }

  loop(options: Options = {}): EvalLoop<string, string, string> {
    const { clock, log, requests } = this;
    return new EvalLoop({
      requests,
      agent: this.agent(),
      evaluator: exactMatch<string>,
      clock,
      log,
      ...options,
    });
  }

  async submit(count: number): Promise<void> {
    const { requests, results } = this;
    await submitDataset(requests, {
      evaluationId: "e",
      dataset: Fixture.samples(count),
      replyTo: results,
    });
  }

  /** Runs a loop until the mailbox is empty. */
  async workOff(loop: EvalLoop<string, string, string>): Promise<void> {
    const run = loop.run();
    for (let i = 0; await this.requests.approximateCount() > 0; i++) {
      if (i > 1_000) throw new Error("the mailbox does not get empty");
      await this.clock.advance(1_000);
    }
    await this.clock.until(loop.shutdown());
    await run;
  }

  /** Receives and acknowledges all results, in order. */
  async takeResults(): Promise<EvalResult<string>[]> {
    const messages = await this.results.receive({ maxMessages: 1_000 });
    await this.results.acknowledgeMany(messages);
    return messages.map(({ body }) => body);
  }

  /** Returns the ids of the waiting samples, in order. */
  async waiting(): Promise<string[]> {
    const messages = await this.requests.receive({ maxMessages: 1_000 });
    await this.requests.releaseMany(messages);
    return messages.map(({ body }) => body.sample.id);
  }
}
