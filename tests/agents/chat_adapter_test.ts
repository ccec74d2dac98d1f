import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import type { AdapterContext } from "../../src/agents/adapter.ts";
import { chatAdapter, ChatApiError } from "../../src/agents/mod.ts";
import { AgentLoop } from "../../src/agents/agent_loop.ts";
import { BudgetExceededError, BudgetTracker } from "../../src/agents/budget.ts";
import { silentLog } from "../../src/log.ts";
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
