import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import type { AdapterContext } from "../../src/agents/adapter.ts";
import { chatAdapter, ChatApiError } from "../../src/agents/mod.ts";
import { AgentLoop } from "../../src/agents/agent_loop.ts";
import { BudgetExceededError, BudgetTracker } from "../../src/agents/budget.ts";
import { isRetryLaterError } from "../../src/errors.ts";
import { silentLog } from "../../src/log.ts";
import { VirtualClock } from "../../src/testing/mod.ts";
import { Fixture } from "./_fixture.ts";
import { piece, Provider } from "./_provider.ts";

const prompt = { messages: [{ role: "user", content: "tea?" }] } as const;

function context(more: Partial<AdapterContext> = {}): AdapterContext {
  return {
    signal: new AbortController().signal,
    run: { runId: "run", requestId: "request", attempt: 1, workerId: "worker" },
    budget: new BudgetTracker(),
    beat: () => {},
    step: async (_, run) => await run(),
    log: silentLog,
    ...more,
  };
}

async function ask(provider: Provider, more: Partial<AdapterContext> = {}): Promise<string[]> {
  const adapter = chatAdapter({ baseUrl: provider.url, model: "m1", apiKey: "secret" });
  const pieces: string[] = [];
  for await (const text of adapter.evaluate(prompt, context(more))) pieces.push(text);
  return pieces;
}

describe("chatAdapter", () => {
  it("chatAdapter sends a chat completions request and yields the answer in pieces", async () => {
    await using provider = await Provider.streaming(
      piece(""),
      piece("Earl "),
      piece("Grey ☕"),
      piece("", "stop"),
      "[DONE]",
    );
    const trace = { traceparent: "00-1-2-01", tracestate: "a=b" };
    const { run } = context();
    assertEquals(await ask(provider, { run: { ...run, trace } }), ["Earl ", "Grey ☕"]);
    const [{ path, headers, body }] = provider.asked as [typeof provider.asked[number]];
    assertEquals(path, "/v1/chat/completions");
    assertEquals(headers["authorization"], "Bearer secret");
    assertEquals([headers["traceparent"], headers["tracestate"]], ["00-1-2-01", "a=b"]);
    assertEquals(body, {
      model: "m1",
      messages: [{ role: "user", content: "tea?" }],
      stream: true,
      stream_options: { include_usage: true },
    });
  });

  it("chatAdapter yields each piece as soon as it arrives", async () => {
    let goOn: () => void = () => {};
    const going = new Promise<void>((resolve) => goOn = resolve);
    await using provider = await Provider.start(async (response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(`data: ${JSON.stringify(piece("first"))}\n\n`);
      await going;
      response.end(`data: ${JSON.stringify(piece("second", "stop"))}\n\n`);
    });
    const adapter = chatAdapter({ baseUrl: provider.url, model: "m1" });
    const seen: string[] = [];
    for await (const text of adapter.evaluate(prompt, context())) {
      seen.push(text);
      goOn(); // the provider waits for this before it sends the second piece
    }
    assertEquals(seen, ["first", "second"]);
  });

  it("chatAdapter decodes characters and events that arrive in parts", async () => {
    await using provider = await Provider.start(async (response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      const bytes = new TextEncoder().encode(
        `data: ${JSON.stringify(piece("☕é", "stop"))}\r\n\r\n`,
      );
      for (const byte of bytes) {
        response.write(Uint8Array.of(byte));
        await new Promise((resolve) => setImmediate(resolve));
      }
      response.end();
    });
    assertEquals((await ask(provider)).join(""), "☕é");
  });

  it("chatAdapter reports usage to the budget and requests at most the tokens left", async () => {
    const usage = { prompt_tokens: 7, completion_tokens: 5 };
    await using provider = await Provider.streaming(piece("x", "stop"), { choices: [], usage });
    const budget = new BudgetTracker({ maxTotalTokens: 20 });
    await ask(provider, { budget });
    assertEquals(budget.used, { inputTokens: 7, outputTokens: 5 });
    await assertRejects(() => ask(provider, { budget }), BudgetExceededError);
    await assertRejects(() => ask(provider, { budget }), BudgetExceededError);
    assertEquals(
      provider.asked.map(({ body }) => body.max_tokens),
      [20, 8],
      "no further call without budget",
    );
  });

  it("chatAdapter reports the response of a rejected call without the API key", async () => {
    await using provider = await Provider.start((response) => {
      response.writeHead(429).end('{"error":{"message":"slow down"}}');
    });
    const error = await assertRejects(() => ask(provider), ChatApiError, "slow down");
    assertEquals(error.status, 429);
    assert(!`${error.stack}`.includes("secret"));
  });

  const NOW = Date.parse("Fri, 01 May 2026 12:00:00 GMT");
  const clock = new VirtualClock(NOW);
  const BUSY: readonly (readonly [string, number, Record<string, string>, number | undefined])[] = [
    ["seconds", 429, { "retry-after": "7" }, 7_000],
    ["seconds of an overloaded provider", 503, { "retry-after": " 120 " }, 120_000],
    ["a date", 429, { "retry-after": "Fri, 01 May 2026 12:01:30 GMT" }, 90_000],
    ["a date by the clock of the provider", 429, {
      "retry-after": "Fri, 01 May 2026 15:00:30 GMT",
      date: "Fri, 01 May 2026 15:00:00 GMT",
    }, 30_000],
    ["0", 429, { "retry-after": "0" }, 1_000],
    ["a date in the past", 503, { "retry-after": "Fri, 01 May 2026 11:00:00 GMT" }, 1_000],
    ["nothing", 429, {}, undefined],
    ["nonsense", 429, { "retry-after": "-5" }, undefined],
    ["seconds and another status", 500, { "retry-after": "7" }, undefined],
  ];
  for (const [what, status, headers, delayMs] of BUSY) {
    const then = delayMs === undefined ? "a ChatApiError" : `a retry after ${delayMs} ms`;
    it(`chatAdapter throws ${then} when the provider answers ${status} with retry-after: ${what}`, async () => {
      const fetch = () => Promise.resolve(new Response("slow down", { status, headers }));
      const adapter = chatAdapter({ baseUrl: "http://127.0.0.1/v1", model: "m1", fetch, clock });
      const answer = async () =>
        await adapter.evaluate(prompt, context())[Symbol.asyncIterator]().next();
      const error = await assertRejects(answer, Error);
      const rejected = isRetryLaterError(error) ? error.cause : error;
      assert(rejected instanceof ChatApiError && rejected.message.includes("slow down"));
      assertEquals(rejected.status, status);
      assertEquals(isRetryLaterError(error) ? error.delayMs : undefined, delayMs);
    });
  }

  it("chatAdapter lets an AgentLoop retry a request at the time of retry-after without spending an attempt", async () => {
    const fixture = new Fixture();
    const asked: number[] = [];
    const start = fixture.clock.monotonic();
    const fetch = () => {
      const isBusy = asked.push(fixture.clock.monotonic() - start) < 3;
      const answer = `data: ${JSON.stringify(piece("tea", "stop"))}\n\n`;
      return Promise.resolve(
        isBusy
          ? new Response("busy", { status: 429, headers: { "retry-after": "90" } })
          : new Response(answer),
      );
    };
    await fixture.ask("tea?");
    const loop = fixture.loop({
      adapter: chatAdapter({ baseUrl: "http://127.0.0.1/v1", model: "m1", fetch }),
    });
    await fixture.workOff(loop);
    assertEquals(
      fixture.replies.bodies.map(({ output, runContext }) => [output, runContext.attempt]),
      [
        ["tea", 1],
      ],
    );
    assertEquals(asked.map((ms) => Math.round(ms / 1_000)), [0, 90, 180]);
  });

  it("chatAdapter throws when the provider ends the stream early", async () => {
    const half = piece("half");
    const ways: readonly (readonly [Promise<Provider>, string])[] = [
      [Provider.streaming(half), "before the answer was complete"],
      [Provider.streaming(half, "[DONE]"), "before the answer was complete"],
      [Provider.streaming(half, { error: { message: "overloaded" } }), "overloaded"],
      [Provider.streaming(half, "{ half"), "invalid JSON: { half"],
    ];
    for (const [starting, message] of ways) {
      await using provider = await starting;
      await assertRejects(() => ask(provider), ChatApiError, message);
    }
  });

  it("chatAdapter throws when the connection breaks", async () => {
    await using provider = await Provider.start((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(`data: ${JSON.stringify(piece("half"))}\n\n`, () => response.destroy());
    });
    await assertRejects(() => ask(provider));
  });

  it("chatAdapter closes the connection when the deadline passes", async () => {
    let closed: () => void = () => {};
    const letGo = new Promise<void>((resolve) => closed = resolve);
    await using provider = await Provider.start((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(`data: ${JSON.stringify(piece("half"))}\n\n`);
      response.on("close", closed);
    });
    const loop = new AgentLoop<string>({
      adapter: chatAdapter({ baseUrl: provider.url, model: "m1" }),
      prepare: (content) => ({ prompt: { messages: [{ role: "user", content }] } }),
      deadlineMs: 300,
    });
    const { error } = await loop.execute({ request: "tea?" });
    assertEquals(error?.name, "DeadlineExceededError");
    await letGo;
  });

  it("chatAdapter rejects an invalid base URL", () => {
    assertThrows(() => chatAdapter({ baseUrl: "nowhere", model: "m1" }), TypeError, '"nowhere"');
  });
});
