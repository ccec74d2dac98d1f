import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { systemClock } from "../../src/clock.ts";
import { silentLog } from "../../src/log.ts";
import { type PoolRequestOptions, RequestTracker, WorkerPool } from "../../src/service/mod.ts";
import type { HttpServer } from "../../src/runtime.ts";
import { detectRuntime } from "../../runtime_adapters/detect.ts";
import { collectGarbage } from "./_gc.ts";

const { serve, name: runtimeName } = detectRuntime();

/** More bytes than the pool reads ahead and the sockets buffer. */
const LARGE = new Uint8Array(16_000_000);

/** Longer than any passing test needs. */
const SAFETY_MS = 10_000;

/** Polls until the condition holds, because no event reports the release of a response. */
async function until(condition: () => boolean, nudge: () => void = () => {}): Promise<void> {
  const limit = performance.now() + SAFETY_MS;
  while (!condition()) {
    assert(performance.now() < limit, "nothing was released");
    nudge();
    await systemClock.sleep(5);
  }
}

/** Two workers and a pool that does not know their free slots. */
class Pair implements AsyncDisposable {
  readonly asked = { a: 0, b: 0 };
  readonly #servers: HttpServer[] = [];
  pool!: WorkerPool;

  static async start(): Promise<Pair> {
    const pair = new Pair();
    const listen = async (id: "a" | "b") => {
      const server = await serve!(({ url }) => {
        pair.asked[id]++;
        return url.endsWith("/large")
          ? new Response(LARGE)
          : new Response("not found", { status: 404 });
      }, { port: 0, hostname: "127.0.0.1" });
      pair.#servers.push(server);
      return { id, url: `http://127.0.0.1:${server.port}` };
    };
    const workers = [await listen("a"), await listen("b")];
    const probe = () => Promise.resolve(true);
    pair.pool = new WorkerPool({ workers, probe, log: silentLog });
    await pair.pool.start();
    return pair;
  }

  /** Sends requests to worker a and drops the responses. */
  async drop(times: number, path: string, options: PoolRequestOptions = {}): Promise<void> {
    for (let index = 0; index < times; index++) {
      await this.pool.fetch(`http://front${path}`, { ...options, workerId: "a" });
    }
  }

  get inFlight(): number {
    return this.pool.workers[0]!.inFlight;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.pool.stop();
    const signal = AbortSignal.abort();
    await Promise.all(this.#servers.map((server) => server.close({ signal })));
  }
}

describe(`WorkerPool on ${runtimeName} with a caller that drops responses`, () => {
  it("WorkerPool releases small responses that the caller drops unread", async () => {
    await using pair = await Pair.start();
    await pair.drop(10, "/");
    await until(() => pair.inFlight === 0);
    pair.asked.a = 0;
    for (let index = 0; index < 100; index++) {
      await (await pair.pool.fetch("http://front/")).text();
    }
    assertEquals(pair.asked, { a: 50, b: 50 });
  });

  it("WorkerPool releases large dropped responses at the deadline", async () => {
    await using pair = await Pair.start();
    const kept = await pair.pool.fetch("http://front/large", { workerId: "a", deadlineMs: 500 });
    assertEquals(pair.inFlight, 1, "it is not read ahead to its end");
    await until(() => pair.inFlight === 0);
    await assertRejects(() => kept.arrayBuffer(), Error, "longer than its deadline of 500 ms");
  });

  it("WorkerPool releases large responses when the caller aborts or cancels the body", async () => {
    await using pair = await Pair.start();
    const controller = new AbortController();
    const ask = (options: PoolRequestOptions) =>
      pair.pool.fetch("http://front/large", { ...options, workerId: "a" });
    const { signal } = controller;
    const kept = [await ask({ signal }), await ask({ signal }), await ask({})] as const;
    assertEquals(pair.inFlight, 3);
    controller.abort(new Error("bored"));
    assertEquals(pair.inFlight, 1);
    await kept[2].body!.cancel();
    assertEquals(pair.inFlight, 0);
    await assertRejects(() => kept[0].text(), Error, "bored");
    await assertRejects(() => kept[1].body!.pipeTo(new WritableStream()), Error, "bored");
  });

  it("WorkerPool releases large responses that are garbage-collected, and none that is still read", async () => {
    await using pair = await Pair.start();
    await pair.drop(5, "/large");
    const reader = await (async () => {
      const answer = await pair.pool.fetch("http://front/large", { workerId: "a" });
      return answer.body!.getReader();
    })();
    await until(() => pair.inFlight <= 1, collectGarbage);
    for (let index = 0; index < 5; index++) {
      collectGarbage();
      await systemClock.sleep(5);
    }
    assertEquals(pair.inFlight, 1, "the one that is read counts");
    let bytes = 0;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      bytes += value.length;
    }
    assertEquals([bytes, pair.inFlight], [LARGE.length, 0]);
  });
});

describe(`a RequestTracker on ${runtimeName}`, () => {
  it("RequestTracker does not count a request whose response is garbage-collected", async () => {
    const tracker = new RequestTracker();
    await tracker.track(new Request("http://here/"), () => new Response("tea"));
    await until(() => tracker.count === 0, collectGarbage);
  });
});
