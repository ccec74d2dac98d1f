import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { scriptedAdapter } from "../../src/agents/adapter.ts";
import type { AgentLoop } from "../../src/agents/agent_loop.ts";
import type { AgentRequest, AgentResult } from "../../src/agents/agent_types.ts";
import { MailboxConnectionError, SerializationError } from "../../src/mailbox/errors.ts";
import type { DeadLetter, MailboxResolver, ReplyMailbox } from "../../src/mailbox/mailbox.ts";
import { redrive } from "../../src/loops/redrive.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { FaultyMailbox } from "../../src/testing/mod.ts";
import { Fixture } from "./_fixture.ts";

/** A fixture whose requests have a reply address by name, and a model that counts its calls. */
class NamedFixture extends Fixture {
  calls = 0;
  /** Finds the reply mailbox; tests replace it. */
  resolver: MailboxResolver = () => this.replies as never;
  override readonly requests: FaultyMailbox<AgentRequest<string>, AgentResult<string>> =
    new FaultyMailbox("requests", { clock: this.clock, resolver: (name) => this.resolver(name) });

  counting(options: Parameters<Fixture["loop"]>[0] = {}): AgentLoop<string> {
    return this.loop({ adapter: scriptedAdapter(() => `answer ${++this.calls}`), ...options });
  }

  async askNamed(replyTo = "office"): Promise<void> {
    await this.requests.send({ request: "tea" }, { replyTo, id: "m1" });
  }

  async letter(): Promise<DeadLetter<AgentRequest<string>>> {
    const [letter] = await this.requests.deadLetters.receive({ visibilityTimeoutMs: 0 });
    return letter!.body;
  }

  /** Repairs the resolver, redrives, and runs the loop. Returns the outputs of the replies. */
  async repair(): Promise<(string | undefined)[]> {
    this.resolver = () => this.replies as never;
    assertEquals(await redrive(this.requests, { clock: this.clock }), 1);
    await this.workOff(this.counting());
    return this.replied;
  }
}

function unsentOutput(letter: DeadLetter<unknown>): unknown {
  return (letter.checkpoint as { readonly unsent?: { readonly result: AgentResult<string> } })
    .unsent?.result.output;
}

describe("the reply address of a request", () => {
  it("that `request` has chosen is known to the loop", async () => {
    const fixture = new NamedFixture();
    const requests = new InMemoryMailbox<AgentRequest<string>, AgentResult<string>>("requests", {
      clock: fixture.clock,
    });
    const loop = fixture.counting({ requests });
    const run = loop.run({ maxMessages: 1 });
    const { output } = await fixture.clock.until(requests.request({ request: "tea" }));
    assertEquals(output, "answer 1");
    await fixture.clock.until(run);
    await fixture.clock.until(requests.close());
  });

  for (const deadLetter of [undefined, false, { maxDeliveries: 3 }] as const) {
    it(`that is unknown dead-letters the request before the model is called, with deadLetter: ${JSON.stringify(deadLetter)}`, async () => {
      const fixture = new NamedFixture();
      fixture.resolver = () => undefined;
      await fixture.askNamed();
      const hooked: string[] = [];
      const loop = fixture.counting({
        ...(deadLetter === undefined ? {} : { deadLetter }),
        onDeadLetter: (_, { reason }) => void hooked.push(reason),
      });
      await fixture.workOff(loop);
      const { reason, error, checkpoint } = await fixture.letter();
      assertEquals([fixture.calls, loop.counts.deadLettered, loop.counts.nacked], [0, 1, 0]);
      assertEquals([reason, checkpoint, hooked], ["reply_unavailable", undefined, [reason]]);
      assert(
        error?.includes('its reply mailbox "office" is unknown here. Pass a `resolver`'),
        error,
      );
      assert(fixture.logged.includes("message dead-lettered"));
      assertEquals(await fixture.repair(), ["answer 1"], "a redrive does the work");
    });
  }

  it("that is unknown after the work retries the reply and dead-letters the request with its answer", async () => {
    const fixture = new NamedFixture();
    let known = true;
    fixture.resolver = () => known ? fixture.replies as never : undefined;
    await fixture.askNamed();
    const loop = fixture.counting({ finalize: () => void (known = false) });
    await fixture.workOff(loop);
    const letter = await fixture.letter();
    assertEquals([letter.reason, unsentOutput(letter)], ["reply_unavailable", "answer 1"]);
    assertEquals([fixture.calls, loop.counts.nacked, loop.counts.acknowledged], [1, 9, 0]);
    assertEquals(await fixture.repair(), ["answer 1"], "a redrive only sends the answer");
    assertEquals(fixture.calls, 1);
  });

  it("that is known again gets the answer, and the work is not repeated", async () => {
    const fixture = new NamedFixture();
    const answers = [fixture.replies, undefined, undefined, fixture.replies];
    fixture.resolver = () => answers.shift() as never;
    await fixture.askNamed();
    const loop = fixture.counting();
    await fixture.workOff(loop);
    assertEquals([fixture.replied, fixture.calls, loop.counts.acknowledged], [["answer 1"], 1, 1]);
    assertEquals(loop.counts.nacked, 2);
  });

  it("whose mailbox is closed puts the request off without calling the model, and dead-letters it in the end", async () => {
    const fixture = new NamedFixture();
    await fixture.replies.close();
    await fixture.askNamed();
    const loop = fixture.counting();
    await fixture.workOff(loop);
    const { reason, error } = await fixture.letter();
    assertEquals([reason, fixture.calls, loop.counts.nacked], ["reply_unavailable", 0, 9]);
    assert(error?.includes('Cannot send to mailbox "replies": it is closed'), error);
  });

  it("that cannot be looked up during an outage is looked up again without spending an attempt", async () => {
    const fixture = new NamedFixture();
    let outages = 5;
    fixture.resolver = () => {
      if (outages-- > 0) throw new MailboxConnectionError("away");
      return fixture.replies as never;
    };
    await fixture.askNamed();
    const loop = fixture.counting({ deadLetter: { maxDeliveries: 2 } });
    await fixture.workOff(loop);
    assertEquals([fixture.replied, fixture.calls, loop.counts.nacked], [["answer 1"], 1, 5]);
  });

  it("whose resolver throws fails the attempt before the model is called", async () => {
    const fixture = new NamedFixture();
    fixture.resolver = () => {
      throw new TypeError("no names");
    };
    await fixture.askNamed();
    await fixture.workOff(fixture.counting({ deadLetter: { maxDeliveries: 2 } }));
    const { reason, error } = await fixture.letter();
    assertEquals([reason, error, fixture.calls], ["max_deliveries", "TypeError: no names", 0]);
  });

  it("that takes neither the answer nor an error in its place keeps the answer in the dead letter", async () => {
    const fixture = new NamedFixture();
    const refusing: ReplyMailbox<never> = {
      name: "office",
      send: () => Promise.reject(new SerializationError("too strange")),
    };
    fixture.resolver = () => refusing;
    await fixture.askNamed();
    const loop = fixture.counting();
    await fixture.workOff(loop);
    const letter = await fixture.letter();
    assertEquals([letter.reason, unsentOutput(letter)], ["reply_unavailable", "answer 1"]);
    assertEquals([loop.counts.acknowledged, fixture.calls], [0, 1]);
  });

  it("that is gone keeps the final error of a failed request in its dead letter, and the hook is called", async () => {
    const fixture = new NamedFixture();
    let known = true;
    fixture.resolver = () => known ? fixture.replies as never : undefined;
    await fixture.askNamed();
    const hooked: string[] = [];
    const loop = fixture.loop({
      adapter: scriptedAdapter(() => (known = false, new RangeError("no"))),
      deadLetter: { maxDeliveries: 1 },
      onDeadLetter: (_, { reason }) => void hooked.push(reason),
    });
    await fixture.workOff(loop);
    const { reason, checkpoint } = await fixture.letter();
    const { refused } = checkpoint as { readonly refused: { result: AgentResult<string> } };
    assertEquals([reason, hooked], ["max_deliveries", ["max_deliveries"]]);
    assertEquals(refused.result.error?.message, "RangeError: no");
  });
});
