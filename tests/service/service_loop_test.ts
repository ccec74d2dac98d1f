import { afterEach, describe, it } from "node:test";
import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { type Deferred, deferred } from "../../src/_promises.ts";
import type { HttpServer, RequestHandler, Runtime } from "../../src/runtime.ts";
import { LoopGroup } from "../../src/group/loop_group.ts";
import { ShutdownCoordinator } from "../../src/lifecycle/shutdown_coordinator.ts";
import { type FetchHandler, ServiceLoop } from "../../src/service/mod.ts";
import { FakeRuntime, lifecycleCases, VirtualClock } from "../../src/testing/mod.ts";
import { detectRuntime } from "../../runtime_adapters/detect.ts";
import { Client, get } from "../adapters/_client.ts";

/** A runtime whose servers are called directly, without a network. */
class ServingRuntime extends FakeRuntime {
  listeningServers = 0;
  ask: RequestHandler = () => Promise.reject(new Error("nobody listens"));

  serve(handler: RequestHandler): Promise<HttpServer> {
    this.listeningServers++;
    this.ask = handler;
    const close = () => {
      this.listeningServers--;
      return Promise.resolve();
    };
    return Promise.resolve({ hostname: "127.0.0.1", port: 80, close });
  }
}

const real = detectRuntime();
const request = () => new Request("http://here/tea");
const OLD = "GET /slow HTTP/1.0\r\n\r\n";

/** Starts a service that listens. */
async function listening(
  handler: FetchHandler,
): Promise<{ readonly service: ServiceLoop; readonly port: number; readonly run: Promise<void> }> {
  const heard = deferred<number>();
  const service = new ServiceLoop("tea", handler, {
    port: 0,
    hostname: "127.0.0.1",
    runtime: real,
    onListen: ({ port }) => heard.resolve(port),
  });
  const run = service.run();
  return { service, port: await heard.promise, run };
}

/** Returns a handler that waits, and a promise that resolves when it is called. */
function onDemand(): {
  readonly handler: FetchHandler;
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

/** Returns a response with server-sent events that ends with `until`. */
function events(until?: AbortSignal): Response {
  const text = (line: string) => new TextEncoder().encode(`data: ${line}\n\n`);
  return new Response(
    new ReadableStream({
      start(stream) {
        stream.enqueue(text("first"));
        until?.addEventListener("abort", () => {
          stream.enqueue(text("last"));
          stream.close();
        });
      },
    }),
    { headers: { "content-type": "text/event-stream" } },
  );
}

describe("ServiceLoop", () => {
  afterEach(() => ShutdownCoordinator.reset());

  for (const { name, run } of lifecycleCases) {
    it(name, () =>
      run(() => {
        const clock = new VirtualClock();
        const runtime = new ServingRuntime();
        const options = { port: 0, clock, runtime };
        const runnable = new ServiceLoop("tea", () => new Response("tea"), options);
        return { runnable, clock, leftovers: () => runtime.listeningServers };
      }));
  }

  it("ServiceLoop refuses requests as soon as a stop begins, and closes when none is in flight and none arrived for 200 ms", async () => {
    const clock = new VirtualClock();
    const runtime = new ServingRuntime();
    const { handler, answer } = onDemand();
    const service = new ServiceLoop("tea", handler, { port: 0, clock, runtime });
    const run = service.run();
    await clock.settle();
    const inside = runtime.ask(request());
    const stopped = service.shutdown();
    assertEquals((await runtime.ask(request())).status, 503, "in the same turn");
    await clock.advance(5_000);
    assertEquals([runtime.listeningServers, service.inFlight], [1, [{
      id: "GET /tea",
      ageMs: 5_000,
    }]]);
    assertEquals((await runtime.ask(request())).status, 503, "and as long as it drains");
    answer.resolve();
    assertEquals((await (await inside).text()).length, 100_000);
    await clock.advance(150);
    assertEquals((await runtime.ask(request())).status, 503, "it was on its way");
    await clock.advance(199);
    assertEquals(runtime.listeningServers, 1);
    assertEquals(await clock.until(stopped), true);
    assertEquals([clock.monotonic(), runtime.listeningServers], [5_350, 0]);
    await run;
  });

  it("ServiceLoop stops immediately when idle, and within a second under constant requests", async () => {
    const clock = new VirtualClock();
    const runtime = new ServingRuntime();
    const service = new ServiceLoop("tea", () => new Response(null), { port: 0, clock, runtime });
    const run = service.run();
    await clock.settle();
    await runtime.ask(request());
    await clock.advance(200);
    assertEquals([await service.shutdown(), clock.monotonic()], [true, 200]);
    await run;

    const again = service.run();
    await clock.settle();
    await runtime.ask(request());
    const stopped = service.shutdown();
    for (let index = 0; index < 10; index++) {
      assertEquals((await runtime.ask(request())).status, 503);
      await clock.advance(100);
    }
    assertEquals([await stopped, clock.monotonic(), clock.pending], [true, 1_200, 0]);
    await again;
  });

  it("ServiceLoop is ready while it admits requests, and can be paused and resumed", async () => {
    const clock = new VirtualClock();
    const runtime = new ServingRuntime();
    const { handler, answer } = onDemand();
    const service = new ServiceLoop("tea", handler, { port: 0, clock, runtime });
    assertEquals([service.ready, service.address], [false, undefined]);
    const run = service.run();
    await clock.settle();
    assertEquals([service.ready, service.address], [true, { hostname: "127.0.0.1", port: 80 }]);
    const inside = runtime.ask(request());
    let drained = false;
    const drain = service.pause().then(() => drained = true);
    await clock.settle();
    assertEquals([service.ready, drained], [false, false]);
    assertEquals((await runtime.ask(request())).status, 503);
    answer.resolve();
    await (await inside).text();
    await drain;
    assertEquals(runtime.listeningServers, 1, "a drained service listens");
    service.resume();
    const again = await runtime.ask(request());
    assertEquals([service.ready, again.status], [true, 200]);
    await again.text();
    const stopped = service.shutdown();
    service.resume();
    assertEquals((await runtime.ask(request())).status, 503, "a stop is not taken back");
    await clock.until(stopped);
    await run;
  });

  it("ServiceLoop cancels requests near the deadline, and reports those that did not end", async () => {
    const clock = new VirtualClock();
    const runtime = new ServingRuntime();
    const reasons: unknown[] = [];
    const service = new ServiceLoop("tea", (request) => {
      if (request.url.endsWith("/stubborn")) return new Promise<Response>(() => {});
      return new Promise<Response>((resolve) => {
        const { cancelling } = service.gate;
        cancelling.addEventListener("abort", () => {
          reasons.push(cancelling.reason.reason, clock.monotonic());
          resolve(new Response(null));
        });
      });
    }, { port: 0, clock, runtime });
    const group = new LoopGroup([service], {
      clock,
      runtime,
      shutdownTimeoutMs: 10_000,
      watchdogThresholdMs: false,
    });
    const run = group.run();
    await clock.settle();
    const obedient = runtime.ask(request());
    runtime.ask(new Request("http://here/stubborn"));
    runtime.send("SIGTERM");
    const report = await clock.until(run);
    assertEquals((await obedient).status, 200);
    assertEquals(reasons[0], "deadline");
    assertEquals([report.outcome, report.exitCode], ["timed_out", 124]);
    assertEquals(report.loops[0]?.inFlight.map(({ id }) => id), ["GET /stubborn"]);
    await clock.advance(5_000);
    assertEquals([runtime.listeningServers, service.running, clock.pending], [0, false, 0]);
  });

  it("ServiceLoop rejects when its port is taken or the runtime cannot serve HTTP", async () => {
    const { service, port, run } = await listening(() => new Response());
    const options = { port, hostname: "127.0.0.1", runtime: real };
    const second = new ServiceLoop("coffee", () => new Response(), options);
    await assertRejects(
      () => second.run(),
      Error,
      `Service "coffee" cannot listen on 127.0.0.1:${port}: the port is taken`,
    );
    assertEquals(second.running, false);
    await service.shutdown();
    await run;
    const without: Runtime = new FakeRuntime();
    const third = new ServiceLoop("milk", () => new Response(), { port: 0, runtime: without });
    await assertRejects(() => third.run(), Error, 'the runtime "fake" cannot serve HTTP');
    for (const port of [-1, 70_000, 1.5]) {
      assertThrows(
        () => new ServiceLoop("x", () => new Response(), { port }),
        RangeError,
        `${port}`,
      );
    }
  });
});

/** More bytes than the sockets buffer for a client that does not read. */
const LARGE = 32_000_000;

/** The longest time from the last response to the end of a stop. A stop that hangs takes the timeout. */
const SOON_MS = 2_000;

describe(`the stop of a ServiceLoop on ${real.name}`, () => {
  const stop = async (service: ServiceLoop, run: Promise<void>) => {
    const began = performance.now();
    assertEquals(await service.shutdown({ timeoutMs: 20_000 }), true);
    await run;
    return performance.now() - began;
  };

  for (
    const [kind, sent] of [
      ["a connection that is kept alive and idle", get("/")],
      ["a connection that has sent nothing", ""],
      ["half a request", get("/").slice(0, 20)],
    ] as const
  ) {
    it(kind, async () => {
      const { service, port, run } = await listening(() => new Response("tea"));
      await using client = await Client.to(port, sent);
      if (sent === get("/")) await client.until("tea");
      assert(await stop(service, run) < SOON_MS);
    });
  }

  it("ServiceLoop finishes a slow response on a stop, and refuses other requests meanwhile", async () => {
    const { handler, asked, answer } = onDemand();
    const { service, port, run } = await listening(handler);
    await using client = await Client.to(port, get("/"));
    await asked.promise;
    const stopped = stop(service, run);
    await using other = await Client.to(port, get("/"));
    await other.until('"code":5006');
    assertStringIncludes(other.text, "503 ");
    assertStringIncludes(other.text.toLowerCase(), "connection: close");
    const answered = performance.now();
    answer.resolve();
    await stopped;
    assert(performance.now() - answered < SOON_MS);
    assertStringIncludes(await client.ended(), "x".repeat(100_000));
  });

  for (const [kind, sent] of [["", get("/slow")], [" to HTTP/1.0 without a Host", OLD]] as const) {
    it(`ServiceLoop finishes a response${kind} that is sent after its handler has returned`, async () => {
      const release = deferred();
      const { service, port, run } = await listening(() => {
        let pulled = 0;
        return new Response(
          new ReadableStream({
            async pull(stream) {
              if (pulled++ > 0) await release.promise;
              stream.enqueue(new TextEncoder().encode(pulled === 1 ? "first" : "last"));
              if (pulled === 2) stream.close();
            },
          }),
        );
      });
      await using client = await Client.to(port, sent);
      await client.until("first");
      assertEquals(service.inFlight.map(({ id }) => id), ["GET /slow"]);
      let over = false;
      const stopped = stop(service, run).then(() => over = true);
      await using other = await Client.to(port, get("/"));
      await other.until("5006");
      assertEquals(over, false);
      release.resolve();
      await stopped;
      assertStringIncludes(await client.ended(), "last");
    });
  }

  it("ServiceLoop stops soon after a client disconnected during a stream", async () => {
    const { service, port, run } = await listening(() => events());
    const client = await Client.to(port, get("/"));
    await client.until("first");
    assertEquals(service.inFlight.length, 1);
    await client[Symbol.asyncDispose]();
    assert(await stop(service, run) < SOON_MS);
  });

  for (
    const [kind, body] of [
      ["text", () => "x".repeat(LARGE)],
      ["bytes", () => new Uint8Array(LARGE)],
      ["a stream", () => new Blob([new Uint8Array(LARGE)]).stream()],
    ] as const
  ) {
    it(`ServiceLoop reports a client that does not read ${kind}, and closes its connection at the deadline`, async () => {
      const asked = deferred();
      const { service, port, run } = await listening(() => {
        asked.resolve();
        return new Response(body(), { headers: { "content-length": String(LARGE) } });
      });
      await using client = await Client.to(port);
      const resume = client.stall();
      client.send(get("/large"));
      await asked.promise;
      assertEquals(await service.shutdown({ timeoutMs: 100 }), false);
      assertEquals(service.inFlight.map(({ id }) => id), ["GET /large"]);
      resume();
      await run;
    });
  }

  it("ServiceLoop stops soon when endless event streams end on the stop", async () => {
    const { service, port, run } = await listening(() => events(service.gate.stopping));
    await using client = await Client.to(port, get("/"));
    await client.until("first");
    assert(await stop(service, run) < SOON_MS);
    assertStringIncludes(await client.ended(), "data: last");
  });

  it("ServiceLoop stops at its deadline when endless event streams ignore the stop", async () => {
    const { service, port, run } = await listening(() => events());
    await using client = await Client.to(port, get("/"));
    await client.until("first");
    const began = performance.now();
    assertEquals(await service.shutdown({ timeoutMs: 200 }), false);
    assertEquals(service.inFlight.length, 1, "left over, and named");
    await run; // cut off
    assert(performance.now() - began < 5_000);
  });
});
