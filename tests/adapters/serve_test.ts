import { describe, it } from "node:test";
import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { type Deferred, deferred } from "../../src/_promises.ts";
import type { HttpServer, RequestHandler } from "../../src/runtime.ts";
import { detectRuntime } from "../../runtime_adapters/detect.ts";
import { Client, get } from "./_client.ts";

const { serve, name: runtimeName } = detectRuntime();
const never = new AbortController().signal;

function start(handler: RequestHandler): Promise<HttpServer> {
  return serve!(handler, { port: 0, hostname: "127.0.0.1" });
}

/** Makes a handler that reports its call and waits for `answer`. */
function onDemand(): {
  readonly handler: RequestHandler;
  readonly asked: Deferred<void>;
  readonly answer: Deferred<void>;
} {
  const [asked, answer] = [deferred(), deferred()];
  const handler = async () => {
    asked.resolve();
    await answer.promise;
    return new Response("x".repeat(100_000));
  };
  return { handler, asked, answer };
}

describe(`a server on ${runtimeName}`, () => {
  it("answers on its port until it is closed", async () => {
    const server = await start((request) => new Response(new URL(request.url).pathname));
    const url = `http://127.0.0.1:${server.port}/tea`;
    assertEquals(await (await fetch(url)).text(), "/tea");
    await server.close({ signal: never });
    await assertRejects(() => fetch(url));
  });

  it("answers HTTP/1.0 requests without a Host header", async () => {
    const server = await start((request) => new Response(`at ${new URL(request.url)}`));
    const path = "/health/live?tea=green";
    for (const head of ["", "Host:\r\n"]) {
      await using client = await Client.to(server.port, `GET ${path} HTTP/1.0\r\n${head}\r\n`);
      const answer = await client.ended();
      assertMatch(answer, /^HTTP\/1\.[01] 200 OK\r\n/);
      assertStringIncludes(answer, `\r\n\r\nat http://localhost:${server.port}${path}`);
    }
    await server.close({ signal: never });
  });

  it("takes an answer before its handler is called", {
    skip: runtimeName !== "node" && "a handler costs about the same here",
  }, async () => {
    const plain = { status: 201, headers: { "x-tea": "green" }, body: "tea 🍵" };
    const answers: Readonly<Record<string, () => typeof plain | Promise<typeof plain>>> = {
      "/now": () => plain,
      "/later": () => Promise.resolve(plain),
      "/throws": () => {
        throw new Error("away");
      },
      "/rejects": () => Promise.reject(new Error("away")),
    };
    const server = await serve!(() => new Response("from the handler"), {
      ...{ port: 0, hostname: "127.0.0.1" },
      answer: (target) => answers[target]?.(),
    });
    const ask = async (target: string, init: RequestInit = {}) => {
      const answer = await fetch(`http://127.0.0.1:${server.port}${target}`, init);
      const { status, headers } = answer;
      return [status, headers.get("x-tea"), headers.get("content-length"), await answer.text()];
    };
    const handled = [200, null, "16", "from the handler"];
    for (const target of ["/now", "/later"]) {
      assertEquals(await ask(target), [201, "green", "8", "tea 🍵"], target);
      assertEquals(await ask(`${target}?`), handled);
      assertEquals(await ask(target, { method: "POST", body: "x".repeat(100_000) }), handled);
    }
    for (const target of ["/throws", "/rejects", "/other"]) {
      assertEquals(await ask(target), handled, target);
    }
    await server.close({ signal: never });
  });

  it("rejects when its port is in use", async () => {
    const first = await start(() => new Response());
    const { port, hostname } = first;
    await assertRejects(() => serve!(() => new Response(), { port, hostname }), Error);
    await first.close({ signal: never });
  });

  it("sends answers of every kind as they are, short ones with their length", async () => {
    const bytes = (size: number) => new Uint8Array(size).fill(120);
    const open = () => new ReadableStream({ start: (stream) => stream.enqueue(bytes(1)) });
    const answers: Record<string, () => Response> = {
      "/none": () => new Response(null, { status: 204 }),
      "/empty": () => new Response(""),
      "/short": () => new Response("tea", { status: 201, headers: { "x-tea": "green" } }),
      "/long": () => new Response(bytes(200_000)),
      "/text": () => new Response("x".repeat(200_000)), // which a server may compress
      "/stream": () => new Response(new Blob([bytes(200_000)]).stream()),
      "/open": () => new Response(open()),
      "/silent": () => new Response(new ReadableStream()),
    };
    const server = await start(({ url }) => answers[new URL(url).pathname]!());
    const ask = async (path: string) => {
      const answer = await fetch(`http://127.0.0.1:${server.port}${path}`);
      const { status, headers } = answer;
      return [status, headers.get("content-length"), (await answer.text()).length];
    };
    assertEquals(await ask("/empty"), [200, "0", 0]);
    assertEquals(await ask("/short"), [201, "3", 3]);
    assertEquals(await ask("/long"), [200, "200000", 200_000]);
    assertEquals((await ask("/text"))[2], 200_000);
    assertEquals((await ask("/stream"))[2], 200_000);
    assertEquals((await ask("/none")).filter((it) => it !== null), [204, 0]);
    await using client = await Client.to(server.port, get("/open"));
    await client.until("\r\n1\r\nx");
    if (runtimeName !== "bun") { // whose server sends the head with the first part of the body
      await using silent = await Client.to(server.port, get("/silent"));
      await silent.until("200 OK");
    }
    await server.close({ signal: AbortSignal.abort() });
  });

  it("closes an idle keep-alive connection", async () => {
    const server = await start(() => new Response("tea"));
    await using client = await Client.to(server.port, get("/"));
    await client.until("tea");
    await server.close({ signal: never });
    await client.ended();
  });

  it("finishes a running response before it closes", async () => {
    const { handler, asked, answer } = onDemand();
    const server = await start(handler);
    await using client = await Client.to(server.port, get("/"));
    await asked.promise;
    const closed = server.close({ signal: never });
    answer.resolve();
    await closed;
    assertStringIncludes(await client.ended(), "x".repeat(100_000));
  });

  for (
    const [kind, sent] of [["nothing", ""], ["half a request", get("/").slice(0, 20)]] as const
  ) {
    it(`closes although a connection has sent ${kind}`, async () => {
      const server = await start(() => new Response());
      await using client = await Client.to(server.port, sent);
      assertEquals(await (await fetch(`http://127.0.0.1:${server.port}`)).text(), "");
      await server.close({ signal: never });
      assert(!client.text.includes("200"));
    });
  }

  it("closes when the signal aborts, although a response has no end", async () => {
    const asked = deferred();
    const server = await start(() => {
      asked.resolve();
      const first = new TextEncoder().encode("data: tea\n\n");
      return new Response(new ReadableStream({ start: (stream) => stream.enqueue(first) }));
    });
    await using client = await Client.to(server.port, get("/"));
    await asked.promise;
    await client.until("tea");
    const abort = new AbortController();
    const closed = server.close({ signal: abort.signal });
    abort.abort();
    await closed;
  });
});
