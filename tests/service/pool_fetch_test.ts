import { after, before, describe, it } from "node:test";
import * as otel from "@opentelemetry/api";
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { deferred } from "../../src/_promises.ts";
import { silentLog } from "../../src/log.ts";
import type { HttpServer, RequestHandler } from "../../src/runtime.ts";
import {
  terminatingResponse,
  UnreachableError,
  WorkerPool,
  type WorkerPoolOptions,
} from "../../src/service/mod.ts";
import { detectRuntime } from "../../runtime_adapters/detect.ts";

const { serve } = detectRuntime();

/** Workers that listen, and their pool. */
class Workers implements AsyncDisposable {
  readonly pool: WorkerPool;
  readonly #servers: readonly HttpServer[];

  private constructor(servers: readonly HttpServer[], options: Partial<WorkerPoolOptions>) {
    this.#servers = servers;
    this.pool = new WorkerPool({
      workers: servers.map(({ port }, index) => ({
        id: "abc"[index]!,
        url: `http://127.0.0.1:${port}/base/`,
      })),
      minRemainingMs: 100,
      log: silentLog,
      ...options,
    });
  }

  /** Answers health checks with 200 and passes other requests to the handler. */
  static async start(
    handlers: readonly RequestHandler[],
    options: Partial<WorkerPoolOptions> = {},
  ): Promise<Workers> {
    const servers = await Promise.all(handlers.map((handler) =>
      serve!((request) => {
        const { pathname } = new URL(request.url);
        return pathname === "/base/health/ready"
          ? Response.json({ freeSlots: 7 })
          : handler(request);
      }, { port: 0, hostname: "127.0.0.1" })
    ));
    const workers = new Workers(servers, options);
    await workers.pool.start();
    return workers;
  }

  async lose(index: number): Promise<void> {
    await this.#servers[index]!.close({ signal: AbortSignal.abort() });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.pool.stop();
    await Promise.all(this.#servers.map((server) => server.close({ signal: AbortSignal.abort() })));
  }
}

describe("WorkerPool.fetch", () => {
  it("WorkerPool.fetch forwards path, method, headers and body, and returns the response", async () => {
    await using workers = await Workers.start([async (request) => {
      const { pathname, search } = new URL(request.url);
      const kept = ["x-tea", "x-lastcall-remaining-ms"].map((name) => request.headers.get(name));
      const text = [request.method, pathname + search, ...kept, await request.text()].join(" ");
      return new Response(text, { status: 201, headers: { "x-answer": "yes" } });
    }]);
    assertEquals(workers.pool.workers[0]?.freeSlots, 7, "as its health tells");
    const answer = await workers.pool.fetch(
      new Request("http://front/order?n=1", {
        method: "POST",
        body: "tea",
        headers: { "x-tea": "green" },
      }),
      { deadlineMs: 5_000 },
    );
    assertEquals([answer.status, answer.headers.get("x-answer")], [201, "yes"]);
    assertEquals(answer.headers.has("x-lastcall-none-healthy"), false);
    const text = await answer.text();
    assert(/^POST \/base\/order\?n=1 green (5000|4\d\d\d) tea$/.test(text), text);
    assertEquals(workers.pool.workers[0]?.inFlight, 0);
  });

  it("WorkerPool.fetch sends the same body to the next worker", async () => {
    const bodies: string[] = [];
    const take = (answer: () => Response): RequestHandler => async (request) => {
      bodies.push(await request.text());
      return answer();
    };
    await using workers = await Workers.start([
      take(() => terminatingResponse()),
      take(() => new Response("no room", { status: 429 })),
      take(() => new Response("done")),
    ], { attempts: { capacity: 3 } });
    const answer = await workers.pool.fetch(
      new Request("http://front/", { method: "PUT", body: "tea" }),
    );
    assertEquals([await answer.text(), bodies], ["done", ["tea", "tea", "tea"]]);
  });

  it("WorkerPool.fetch returns the last 503 when all workers are stopping, with x-lastcall-none-healthy", async () => {
    let asked = 0;
    const stopping = () => {
      asked++;
      return terminatingResponse({ message: `number ${asked}`, retryAfterMs: 7_000 });
    };
    await using workers = await Workers.start([stopping, stopping]);
    const answer = await workers.pool.fetch("http://front/");
    assertEquals([answer.status, answer.headers.get("retry-after"), asked], [503, "7", 2]);
    assertEquals((await answer.json()).error, {
      code: 5006,
      name: "TERMINATING",
      message: "number 2",
    });
    const again = await workers.pool.fetch("http://front/");
    assertEquals([again.status, again.headers.get("x-lastcall-none-healthy")], [503, "true"]);
    await again.text();
  });

  it("WorkerPool.fetch returns other responses unchanged", async () => {
    let asked = 0;
    const broken = () => {
      asked++;
      return new Response("oops", { status: 500 });
    };
    await using workers = await Workers.start([broken, broken]);
    const answer = await workers.pool.fetch("http://front/");
    assertEquals([answer.status, await answer.text(), asked], [500, "oops", 1]);
  });

  it("WorkerPool.fetch retries after 429 and after a 503 with one of `capacityCodes`, and after no other 503", async () => {
    const coded = (code: unknown) => () => Response.json({ error: { code } }, { status: 503 });
    const plain = (body: BodyInit, status = 503) => () => new Response(body, { status });
    let answer = plain("");
    let asked = 0;
    const busy = () => {
      asked++;
      return answer();
    };
    await using workers = await Workers.start([busy, busy], { capacityCodes: [5007, "FULL"] });
    const ask = async (refusal: () => Response) => {
      [answer, asked] = [refusal, 0];
      const response = await workers.pool.fetch(new Request("http://front/", { method: "POST" }));
      const body = new Uint8Array(await response.arrayBuffer());
      return { asked, status: response.status, body };
    };
    for (const refusal of [coded(5007), coded("FULL"), plain("slow down", 429)]) {
      assertEquals((await ask(refusal)).asked, 2);
    }
    for (const code of [5001, "5007", "OVERLOADED", undefined, null, { code: 5007 }]) {
      assertEquals((await ask(coded(code))).asked, 1, `code ${JSON.stringify(code)}`);
    }
    for (const body of ["no room", "", "5007", "[]", "null"]) {
      assertEquals((await ask(plain(body))).asked, 1, body);
    }
    const body = new Uint8Array([0xff, 0xfe, 0x00]);
    assertEquals(await ask(plain(body)), { asked: 1, status: 503, body });
    assertEquals(workers.pool.workers.map(({ inFlight }) => inFlight), [0, 0]);
  });

  it("WorkerPool.fetch tries another worker when one is unreachable, and rejects when all are", async () => {
    const answering = () => new Response("here");
    await using workers = await Workers.start([answering, answering], { healthEveryMs: 60_000 });
    await workers.lose(0);
    for (let index = 0; index < 4; index++) {
      assertEquals(await (await workers.pool.fetch("http://front/")).text(), "here");
    }
    await workers.lose(1);
    const error = await assertRejects(() => workers.pool.fetch("http://front/"), UnreachableError);
    assertStringIncludes(error.message, "is unreachable");
    assert(error.cause instanceof Error);
  });

  it("WorkerPool.fetch sends the request of a session once, and streams its body", async () => {
    let asked = 0;
    const stopping = () => {
      asked++;
      return terminatingResponse();
    };
    await using workers = await Workers.start([stopping, stopping]);
    const answer = await workers.pool.fetch("http://front/", { sessionId: "mine" });
    assertEquals([answer.status, asked], [503, 1]);
    await answer.text();
  });

  it("WorkerPool.fetch counts a stream as in flight until it ends, and cancels it at the deadline", async () => {
    const last = deferred();
    await using workers = await Workers.start([() => {
      const text = (it: string) => new TextEncoder().encode(it);
      return new Response(
        new ReadableStream({
          async start(stream) {
            stream.enqueue(text("first"));
            await last.promise;
            stream.enqueue(text("last"));
            stream.close();
          },
        }),
      );
    }]);
    const whole = await workers.pool.fetch("http://front/");
    const reader = whole.body!.getReader();
    await reader.read();
    assertEquals(workers.pool.workers[0]?.inFlight, 1);
    const cut = await workers.pool.fetch("http://front/", { deadlineMs: 300 });
    await assertRejects(() => cut.text());
    last.resolve();
    while (!(await reader.read()).done);
    assertEquals(workers.pool.workers[0]?.inFlight, 0);
  });
});

interface Recorded {
  readonly name: string;
  readonly attributes: Record<string, unknown>;
  ended: boolean;
}

describe("the spans of a WorkerPool", () => {
  const spans: Recorded[] = [];
  before(() => {
    const startSpan = (name: string, options: otel.SpanOptions = {}) => {
      const span: Recorded = { name, attributes: { ...options.attributes }, ended: false };
      spans.push(span);
      return {
        setAttribute: (key: string, value: unknown) => span.attributes[key] = value,
        recordException: () => {},
        setStatus: () => {},
        end: () => span.ended = true,
      };
    };
    otel.trace.setGlobalTracerProvider({ getTracer: () => ({ startSpan }) } as never);
    otel.propagation.setGlobalPropagator({
      inject: (_context: unknown, carrier: Record<string, string>) => carrier["traceparent"] = "t",
      extract: (context: otel.Context) => context,
      fields: () => ["traceparent"],
    } as never);
  });
  after(() => {
    otel.trace.disable();
    otel.propagation.disable();
  });

  it("WorkerPool has one span per attempt, and passes the trace to the worker", async () => {
    await using workers = await Workers.start([
      () => terminatingResponse(),
      (request) => new Response(request.headers.get("traceparent")),
    ]);
    assertEquals(await (await workers.pool.fetch("http://front/")).text(), "t");
    assertEquals<unknown>(
      spans.map(({ name, attributes, ended }) => ({ name, ended, ...attributes })),
      [
        {
          name: "lastcall.pool.attempt",
          ended: true,
          "lastcall.pool": "workers",
          "lastcall.worker": "a",
          "lastcall.attempt": 1,
          "lastcall.outcome": "terminating",
          "error.type": "TerminatingError",
        },
        {
          name: "lastcall.pool.attempt",
          ended: true,
          "lastcall.pool": "workers",
          "lastcall.worker": "b",
          "lastcall.attempt": 2,
          "lastcall.outcome": "answered",
        },
      ],
    );
  });
});
