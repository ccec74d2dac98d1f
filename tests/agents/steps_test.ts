import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import type { AgentContext, AgentResult } from "../../src/agents/agent_types.ts";
import type { Adapter } from "../../src/agents/adapter.ts";
import { deferred } from "../../src/_promises.ts";
import { FaultyMailbox } from "../../src/testing/mod.ts";
import { Fixture } from "./_fixture.ts";

describe("the steps of a request", () => {
  it("AgentLoop runs each step once over all attempts, beside its progress and its unsent answer", async () => {
    const fixture = new Fixture();
    const replies = new FaultyMailbox<AgentResult<string>>("away", { clock: fixture.clock });
    const { id } = await fixture.requests.send({ request: "tea" }, { replyTo: replies });
    const calls: string[] = [];
    const attempts: unknown[] = [];
    const adapter: Adapter = {
      name: "tools",
      async *evaluate(_, { step }) {
        const weather = await step("tool: weather", () => (calls.push("weather"), { rain: false }));
        if (calls.length < 3) throw new Error(`busy after ${calls.push("failed")}`);
        yield `rain: ${weather.rain}`;
      },
    };
    replies.loseConnection({ operations: ["send"] });
    const options = {
      adapter,
      deadLetter: { maxDeliveries: 3 },
      prepare: async (content: string, { step, checkpoint, progress }: AgentContext) => {
        attempts.push(progress);
        const user = await step("load", () => (calls.push("load"), content.toUpperCase()));
        await checkpoint({ attempt: attempts.length });
        return { prompt: { messages: [{ role: "user", content: user } as const] } };
      },
      finalize: async (output: string, { step }: AgentContext) => {
        return await step("save", () => (calls.push("save"), `${output}!`));
      },
    };
    const loop = fixture.loop(options);
    const run = loop.run();
    await fixture.clock.advance(10_000);
    await fixture.clock.until(loop.shutdown());
    await run;
    const peeked = await fixture.requests.get(id);
    const { progress, unsent } = peeked?.checkpoint as Readonly<Record<string, unknown>>;
    assertEquals([progress, unsent === undefined], [{ attempt: 2 }, false]);
    assertEquals(peeked?.steps?.map(({ name }) => name), ["load", "tool: weather", "save"]);
    replies.restoreConnection();
    await fixture.workOff(fixture.loop(options));
    const [reply] = await replies.receive();
    assertEquals(reply?.body.output, "rain: false!");
    assertEquals(calls, ["load", "weather", "failed", "save"]);
    assertEquals(attempts, [undefined, { attempt: 1 }]);
  });

  it("AgentLoop begins no step after the deadline of the attempt", async () => {
    const fixture = new Fixture();
    const calls: string[] = [];
    const late = deferred<string>();
    const loop = fixture.loop({
      deadlineMs: 1_000,
      prepare: async (content, { step }) => {
        await fixture.clock.sleep(2_000);
        await step("charge", () => calls.push("charge")).catch((error) => late.resolve(error.name));
        return { prompt: { messages: [{ role: "user", content }] } };
      },
    });
    const result = loop.execute({ request: "tea" });
    await fixture.clock.advance(2_000);
    assertEquals((await result).error?.name, "DeadlineExceededError");
    assertEquals([await late.promise, calls], ["DeadlineExceededError", []]);
  });

  it("AgentLoop.execute checks the names of steps, and saves nothing", async () => {
    const fixture = new Fixture();
    const loop = fixture.loop({
      prepare: async (content, { step }) => {
        const twice = [await step("a", () => 1), await step(content, () => 2)];
        return { prompt: { messages: [{ role: "user", content: String(twice) }] } };
      },
    });
    assertEquals((await loop.execute({ request: "b" })).output, "1,2!");
    assertEquals((await loop.execute({ request: "b" })).output, "1,2!");
    const { error } = await loop.execute({ request: "a", requestId: "r1" });
    assertEquals(
      error?.message,
      'Step "a" of message r1 was called before: give each step a name of its own',
    );
  });
});
