import { connect } from "node:net";
import { once } from "node:events";
import { describe, it } from "node:test";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { Hono } from "hono";
import { type DrainReport, LoopGroup, type Runnable, silentLog, StepLoop } from "../../mod.ts";
import { healthApp } from "../../src/health/mod.ts";
import { ServiceLoop } from "../../src/service/mod.ts";
import { deferred } from "../../src/_promises.ts";
import { freePort } from "../engines/_servers.ts";

const OPTIONS = { log: silentLog, watchdogThresholdMs: false, shutdownTimeoutMs: 20_000 } as const;

/** Starts a group with a health port. Resolves when it runs. */
async function start(
  loops: readonly Runnable[],
): Promise<{ group: LoopGroup; port: number; run: Promise<DrainReport> }> {
  const port = await freePort();
  const running = deferred();
  const group = new LoopGroup(loops, { ...OPTIONS, healthPort: port, healthHost: "127.0.0.1" });
  group.on("phase", ({ phase }) => phase === "running" && running.resolve());
  const run = group.run({ installSignals: false });
  await Promise.race([running.promise, run]);
  return { group, port, run };
}

const idle = () => new StepLoop("idle", ({ sleep }) => sleep(60_000));

describe("a client of /events over HTTP", () => {
  it("a client of /events gets every phase up to the end, and does not delay the stop", async () => {
    const [started, work] = [deferred(), deferred()];
    const busy = new StepLoop("busy", async () => {
      started.resolve();
      await work.promise;
    });
    const { group, port, run } = await start([busy]);
    await started.promise;
    const clients = await Promise.all([1, 2].map(() => fetch(`http://127.0.0.1:${port}/events`)));
    const texts = clients.map((response) => response.text());
    // One of them has read something before the stop begins.
    const third = (await fetch(`http://127.0.0.1:${port}/events`)).body!.getReader();
    await third.read();
    const draining = deferred();
    group.on("phase", ({ phase }) => phase === "draining" && draining.resolve());
    const stopped = group.shutdown();
    await draining.promise;
    work.resolve();
    assertEquals([await stopped, (await run).exitCode], [true, 0]);
    for (const text of await Promise.all(texts)) {
      assertMatch(text, /"phase":"draining"/);
      assertMatch(
        text.trimEnd().split("\n\n").at(-1) ?? "",
        /^event: end\ndata: .*"phase":"stopped".*"end":\{"outcome":"drained","exitCode":0\}/,
      );
    }
    while (!(await third.read()).done);
  });

  it("a client of /events that disconnected is not in the report", async () => {
    const { group, port, run } = await start([idle()]);
    const leaving = new AbortController();
    const response = await fetch(`http://127.0.0.1:${port}/events`, { signal: leaving.signal });
    await response.body!.getReader().read();
    leaving.abort();
    await group.shutdown();
    assertEquals((await run).unfinished, []);
  });

  it("a client of /events that never reads delays a stop by less than 10 s", async () => {
    const { group, port, run } = await start([idle()]);
    const socket = connect({ port, host: "127.0.0.1" });
    await once(socket, "connect");
    socket.on("error", () => {}); // the server closes the connection
    socket.pause();
    socket.write("GET /events HTTP/1.1\r\nhost: here\r\n\r\n");
    const answer = await fetch(`http://127.0.0.1:${port}/status`);
    await answer.body?.cancel();
    assert(await group.shutdown());
    const report = await run;
    assertEquals(report.unfinished, []);
    assert(report.stopMs < 10_000, `it took ${report.stopMs} ms`);
    socket.destroy();
  });

  it("a client of /events in a ServiceLoop of the group does not prevent its stop", async () => {
    const listening = deferred<number>();
    const app = new Hono();
    const service: ServiceLoop = new ServiceLoop("web", app.fetch, {
      port: 0,
      hostname: "127.0.0.1",
      onListen: ({ port }) => listening.resolve(port),
    });
    const group: LoopGroup = new LoopGroup([service], OPTIONS);
    app.route("/", healthApp(group, { log: silentLog }));
    const run = group.run({ installSignals: false });
    const port = await listening.promise;
    const client = (await fetch(`http://127.0.0.1:${port}/events`)).text();
    const status = await (await fetch(`http://127.0.0.1:${port}/status`)).json();
    assertEquals(status.phase, "running");
    await group.shutdown();
    const { exitCode, stopMs } = await run;
    assertEquals(exitCode, 0);
    assert(stopMs < 10_000, `it took ${stopMs} ms`);
    assertMatch(await client, /"phase":"(unready|draining)"/);
  });
});
