import { describe, it } from "node:test";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { Hono } from "hono";
import { deferred } from "../../src/_promises.ts";
import { drainable, ServiceGate, ServiceLoop } from "../../src/service/mod.ts";
import { detectRuntime } from "../../runtime_adapters/detect.ts";
import { Client, get } from "../adapters/_client.ts";

const real = detectRuntime();

/** The headers of a browser that opens a WebSocket. */
const UPGRADE = get("/chat").replace(
  "\r\n\r\n",
  "\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n" +
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
);

interface DenoUpgrade {
  upgradeWebSocket(request: Request): { readonly response: Response };
}

/** A handler that opens a WebSocket with the API of its runtime. */
function accept(request: Request, exchange: unknown): Response {
  const { Deno } = globalThis as unknown as { readonly Deno?: DenoUpgrade };
  if (Deno !== undefined) return Deno.upgradeWebSocket(request).response;
  const { upgrade } = Object(exchange) as { upgrade?: (request: Request) => boolean };
  if (upgrade !== undefined) upgrade.call(exchange, request);
  return new Response("tea");
}

async function listening(): Promise<{
  readonly service: ServiceLoop;
  readonly run: Promise<void>;
  readonly port: number;
  readonly handled: string[];
}> {
  const heard = deferred<number>();
  const handled: string[] = [];
  const service = new ServiceLoop("tea", (request, exchange) => {
    handled.push(new URL(request.url).pathname);
    return accept(request, exchange);
  }, {
    port: 0,
    hostname: "127.0.0.1",
    runtime: real,
    onListen: ({ port }) => heard.resolve(port),
  });
  const run = service.run();
  return { service, run, port: await heard.promise, handled };
}

describe(`WebSockets and a ServiceLoop on ${real.name}`, () => {
  it("ServiceLoop answers 501 to a WebSocket with what to do instead, without calling the handler", async () => {
    const { service, run, port, handled } = await listening();
    await using client = await Client.to(port, UPGRADE);
    await client.until("\r\n\r\n");
    assertMatch(client.text, /^HTTP\/1\.1 501 /);
    await client.until("}}");
    const { error } = JSON.parse(client.text.slice(client.text.indexOf("{")));
    assertEquals(error.name, "WEBSOCKETS_UNSUPPORTED");
    assertStringIncludes(error.message, "server-sent events");
    assertEquals([handled, service.inFlight], [[], []]);
    await service.shutdown();
    await run;
  });

  it("ServiceLoop makes WebSocket clients fail, and its stop does not wait for them", async () => {
    const { service, run, port, handled } = await listening();
    const socket = new WebSocket(`ws://127.0.0.1:${port}/chat`);
    const outcome = deferred<string>();
    socket.addEventListener("open", () => outcome.resolve("open"));
    socket.addEventListener("error", () => outcome.resolve("error"));
    socket.addEventListener("close", () => outcome.resolve("close"));
    assertMatch(await outcome.promise, /error|close/);
    assertEquals([handled, await service.shutdown({ timeoutMs: 5_000 })], [[], true]);
    await run;
  });
});

describe("a gate in front of an app that something else serves", () => {
  it("drainable refuses WebSockets on the routes behind it only", async () => {
    const gate = new ServiceGate();
    const app = new Hono()
      .get("/before", (c) => c.text("upgraded"))
      .use(drainable(gate))
      .get("/behind", (c) => c.text("upgraded"));
    const headers = { connection: "Upgrade", upgrade: "websocket" };
    const ask = async (path: string) => (await app.request(path, { headers })).status;
    assertEquals([await ask("/before"), await ask("/behind"), gate.count], [200, 501, 0]);
    const other = await app.request("/behind", {
      headers: { connection: "Upgrade", upgrade: "h2c" },
    });
    assertEquals(await other.text(), "upgraded", "what may be ignored is ignored");
    gate.close();
    assertEquals(await ask("/behind"), 501, "to try again would not help");
  });
});
