import { describe, it } from "node:test";
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { detectRuntime } from "../../runtime_adapters/detect.ts";
import { loadHono, serveHealth } from "../../src/health/health_server.ts";
import type { HealthOptions } from "../../src/health/mod.ts";
import { Client } from "../adapters/_client.ts";
import { freePort } from "../engines/_servers.ts";
import { Fixture } from "./_fixture.ts";

const runtime = detectRuntime();

/** The health server of a group on a virtual clock. */
async function serve(fixture: Fixture, options: HealthOptions) {
  const port = await freePort();
  const { clock, log } = fixture;
  const close = await serveHealth(
    await loadHono("test", runtime),
    fixture.group,
    runtime,
    { port, hostname: "127.0.0.1" },
    { clock, log, ...options },
  );
  return { port, [Symbol.asyncDispose]: () => close({ signal: AbortSignal.abort() }) };
}

/** Sends a request, and returns the whole answer without its date. */
async function ask(port: number, line: string, ...headers: readonly string[]): Promise<string> {
  const lines = [line, ...headers, "Connection: close", "", ""];
  await using client = await Client.to(port, lines.join("\r\n"));
  return (await client.ended()).replace(/^date: .*\r\n/im, "");
}

const STATES: Readonly<Record<string, (fixture: Fixture) => Promise<unknown>>> = {
  "before the start": () => Promise.resolve(),
  "while running": (fixture) => fixture.start(),
  "while paused": async (fixture) => {
    await fixture.start();
    await fixture.group.pause();
  },
};

const CHECKS: Readonly<Record<string, HealthOptions["checks"]>> = {
  "no checks": undefined,
  "a check": { fine: () => Promise.resolve() },
  "a failing check": { fine: () => {}, broken: () => Promise.reject(new Error("away")) },
};

describe("a probe", () => {
  for (const [when, reach] of Object.entries(STATES)) {
    for (const [what, checks] of Object.entries(CHECKS)) {
      it(`the health server answers it as the app does (${when}, ${what})`, async () => {
        const fixture = new Fixture();
        const options = checks === undefined ? {} : { checks };
        await using server = await serve(fixture, options);
        const { port } = server;
        await reach(fixture);
        for (const path of ["/health/live", "/health/ready"]) {
          const response = await fixture.app(options).request(path);
          const body = await response.text();
          // With a question mark, the app answers on every runtime.
          for (const target of [path, `${path}?`]) {
            const answer = await ask(port, `GET ${target} HTTP/1.1`, "Host: here");
            assertStringIncludes(answer, `HTTP/1.1 ${response.status} `);
            assertMatch(answer, /^cache-control: no-store\r$/im);
            assertMatch(answer, /^content-type: application\/json\r$/im);
            assert(answer.endsWith(`\r\n\r\n${body}`), answer);
          }
          const same = async (...request: readonly [string, string, ...string[]]) => {
            const [method, rest, ...headers] = request;
            assertEquals(
              await ask(port, `${method} ${path} ${rest}`, ...headers),
              await ask(port, `${method} ${path}? ${rest}`, ...headers),
            );
          };
          await same("GET", "HTTP/1.1", "Host: here");
          await same("GET", "HTTP/1.0");
          await same("HEAD", "HTTP/1.1", "Host: here");
          await same("POST", "HTTP/1.1", "Host: here", "Content-Length: 0");
        }
        if (when !== "before the start") await fixture.stop();
      });
    }
  }

  it("a group whose health cannot be read is answered with 500", async () => {
    const fixture = new Fixture();
    await using server = await serve(fixture, {});
    const { error } = console;
    console.error = () => {}; // where hono writes it
    fixture.group.health = () => {
      throw new Error("a loop of the user failed");
    };
    const answer = await ask(server.port, "GET /health/ready HTTP/1.1", "Host: here");
    console.error = error;
    assertStringIncludes(answer, "HTTP/1.1 500 ");
  });
});
