import { AgentLoop } from "../../src/agents/agent_loop.ts";
import type { AgentLoopOptions, AgentRequest, AgentResult } from "../../src/agents/agent_types.ts";
import type { Adapter } from "../../src/agents/adapter.ts";
import { scriptedAdapter } from "../../src/agents/adapter.ts";
import type { Log } from "../../src/log.ts";
import { CollectingMailbox, FaultyMailbox, VirtualClock } from "../../src/testing/mod.ts";

/** A request mailbox and a reply mailbox on a virtual clock, and agent loops that use them. */
export class Fixture {
  readonly clock: VirtualClock = new VirtualClock();
  readonly requests: FaultyMailbox<AgentRequest<string>, AgentResult<string>> = new FaultyMailbox(
    "requests",
    {
      clock: this.clock,
      // A redriven request has the name of its reply mailbox only.
      resolver: (name) => name === "replies" ? this.replies as never : undefined,
    },
  );
  readonly replies: CollectingMailbox<AgentResult<string>> = new CollectingMailbox("replies", {
    clock: this.clock,
  });
  /** Messages of all warnings and errors, without their properties. */
  readonly logged: string[] = [];
  readonly log: Log = {
    debug: () => {},
    info: () => {},
    warn: (message) => void this.logged.push(message),
    error: (message) => void this.logged.push(message),
  };

  /** Returns a model that echoes the prompt after `delayMs`. */
  echo(delayMs = 0): Adapter {
    const { clock } = this;
    return scriptedAdapter(({ messages }) => `${messages[0]!.content}!`, { delayMs, clock });
  }

  loop(options: Partial<AgentLoopOptions<string, string>> = {}): AgentLoop<string> {
    const { clock, log, requests } = this;
    return new AgentLoop<string>({
      requests,
      adapter: this.echo(),
      prepare: (content) => ({ prompt: { messages: [{ role: "user", content }] } }),
      clock,
      log,
      ...options,
    });
  }

  async ask(request: string, more: Partial<AgentRequest<string>> = {}): Promise<string> {
    return (await this.requests.send({ request, ...more }, { replyTo: this.replies })).id;
  }

  /** Runs a loop until the mailbox is empty. */
  async workOff(loop: AgentLoop<string>): Promise<void> {
    const run = loop.run();
    for (let i = 0; await this.requests.approximateCount() > 0; i++) {
      if (i > 1_000) throw new Error("the mailbox does not get empty");
      await this.clock.advance(1_000);
    }
    await this.clock.until(loop.shutdown());
    await run;
  }

  /** The output or the error name of each reply, in order. */
  get replied(): (string | undefined)[] {
    return this.replies.bodies.map(({ output, error }) => output ?? error?.name);
  }
}

/** A model that never answers and ignores its signal. */
export const hangingAdapter: Adapter = {
  name: "hanging",
  evaluate: () => ({
    [Symbol.asyncIterator]: () => ({ next: () => new Promise<never>(() => {}) }),
  }),
};
