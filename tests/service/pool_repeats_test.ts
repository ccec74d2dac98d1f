import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { silentLog } from "../../src/log.ts";
import {
  drainable,
  ServiceGate,
  terminatingResponse,
  UnreachableError,
  WorkerPool,
  type WorkerPoolOptions,
} from "../../src/service/mod.ts";
import { TerminatingError } from "../../src/errors.ts";
import type { HttpServer, RequestHandler } from "../../src/runtime.ts";
import { detectRuntime } from "../../runtime_adapters/detect.ts";
import { CuttingWorker } from "./_cutting_worker.ts";
import { ServiceProcess } from "./_process.ts";
import { Hono } from "hono";

const { serve, name: runtimeName } = detectRuntime();

/** A pool that holds every worker for healthy. */
function poolOf(workers: readonly string[], options: Partial<WorkerPoolOptions> = {}): WorkerPool {
  const probe = () => Promise.resolve(true);
  return new WorkerPool({ workers, minRemainingMs: 0, probe, log: silentLog, ...options });
}

async function listening(handler: RequestHandler): Promise<HttpServer & AsyncDisposable> {
  const server = await serve!(handler, { port: 0, hostname: "127.0.0.1" });
  const dispose = () => server.close({ signal: AbortSignal.abort() });
  return { ...server, [Symbol.asyncDispose]: dispose };
}

const urlOf = ({ port }: HttpServer) => `http://127.0.0.1:${port}`;

/** Several kept connections to each: a fetch that repeats by itself finds one. */
async function warm(...workers: readonly CuttingWorker[]): Promise<void> {
  const ask = async ({ url }: CuttingWorker) => await (await fetch(`${url}/warm`)).text();
  await Promise.all(workers.flatMap((worker) => [ask(worker), ask(worker), ask(worker)]));
}

describe(`a WorkerPool on ${runtimeName} whose worker breaks the connection after it took the request`, () => {
  for (const method of ["POST", "PUT", "PATCH", "DELETE"]) {
    for (const body of ["tea", null]) {
      it(`has ${method} with ${body === null ? "no" : "a"} body executed once, and says that it may have been`, async () => {
        await using first = await CuttingWorker.start();
        await using second = await CuttingWorker.start();
        await using pool = poolOf([first.url, second.url]);
        await pool.start();
        let sent = 0;
        for (const cut of ["close", "reset"] as const) {
          first.cut = second.cut = cut;
          for (const kept of [false, true]) {
            for (const options of [{}, { sessionId: "mine" }]) {
              if (kept) await warm(first, second);
              const request = new Request("http://front/orders", { method, body });
              const error = await assertRejects(
                () => pool.fetch(request, options),
                UnreachableError,
              );
              assertEquals(error.started, true);
              assertStringIncludes(error.message, `${method} /orders`);
              assertEquals([...first.executed, ...second.executed].length, ++sent);
            }
          }
        }
      });
    }
  }

  it("asks another for GET, and for what has an Idempotency-Key or is called idempotent", async () => {
    await using cutting = await CuttingWorker.start();
    const answered: string[] = [];
    await using answering = await listening(async (request) => {
      answered.push(`${request.method} ${await request.text()}`);
      return new Response("done");
    });
    await using pool = poolOf([cutting.url, urlOf(answering)], { circuit: { failures: 100 } });
    await pool.start();
    const post = { method: "POST", body: "tea" };
    const key = { "idempotency-key": "order-7" };
    const ask = async (init: RequestInit, idempotent?: boolean) => {
      const before = cutting.executed.length;
      // Both turns, so that each of the two is the first once.
      for (let turn = 0; turn < 2; turn++) {
        const options = idempotent === undefined ? {} : { idempotent };
        const answer = await pool.fetch(new Request("http://front/orders", init), options);
        assertEquals(await answer.text(), "done");
      }
      assert(cutting.executed.length > before, "the one that cuts was asked");
    };
    await ask({});
    await ask({ method: "OPTIONS" });
    await ask({ ...post, headers: key });
    await ask(post, true);
    assertEquals(answered.slice(-4), Array(4).fill("POST tea"));
    await assertRejects(() => ask({ ...post, headers: key }, false), UnreachableError);
  });

  it("tries other workers for a POST while connections are refused", async () => {
    const gone = await CuttingWorker.start();
    const { url } = gone;
    await gone[Symbol.asyncDispose]();
    const bodies: string[] = [];
    await using answering = await listening(async (request) => {
      bodies.push(await request.text());
      return new Response("done");
    });
    await using pool = poolOf([url, urlOf(answering)]);
    await pool.start();
    for (let index = 0; index < 4; index++) {
      const request = new Request("http://front/orders", { method: "POST", body: "tea" });
      assertEquals(await (await pool.fetch(request)).text(), "done");
    }
    assertEquals(bodies, Array(4).fill("tea"));
    assert(pool.metrics()[1]?.samples.some(({ value }) => value > 0), "the other was asked first");
  });

  it("has a POST executed once by processes that die of it", async () => {
    await using first = await ServiceProcess.start("fixtures/fatal.ts");
    await using second = await ServiceProcess.start("fixtures/fatal.ts");
    await using pool = poolOf([first.url(""), second.url("")]);
    await pool.start();
    const request = new Request("http://front/orders", { method: "POST", body: "tea" });
    const error = await assertRejects(() => pool.fetch(request), UnreachableError);
    assertEquals(error.started, true);
    const over = (process: ServiceProcess) => process.ended().then(() => process);
    const dead = await Promise.race([over(first), over(second)]);
    const other = dead === first ? second : first;
    assertEquals(dead.stdout.match(/executed .*/g), ["executed POST tea"]);
    assertEquals((await other.ask("/health/ready")).status, 200, "the other has not died of it");
  });
});

describe(`a WorkerPool on ${runtimeName} whose worker is stopping`, () => {
  const gate = () => {
    const closed = new ServiceGate();
    closed.close();
    return closed;
  };
  const gaveUp = () => {
    throw new TerminatingError("no more");
  };
  const stopping: Record<string, (started: () => void) => RequestHandler> = {
    "a gate": () => (request) => gate().handle(request, () => new Response("never")),
    "a handler that answers so": () => () => terminatingResponse(),
    "a handler behind a gate that gave up": (started) => {
      const open = new ServiceGate();
      return (request) =>
        open.handle(request, () => {
          started();
          return gaveUp();
        });
    },
    "a handler of Hono that gave up": (started) =>
      new Hono().use(drainable(new ServiceGate())).all("*", () => {
        started();
        return gaveUp();
      }).onError((_, c) => c.text("oops", 500)).fetch,
  };
  for (const [who, handler] of Object.entries(stopping)) {
    const gives = who.endsWith("gave up");
    it(`${gives ? "asks no other" : "asks another"} for POST when ${who} says TERMINATING, but for GET`, async () => {
      let started = 0;
      await using leaving = await listening(handler(() => started++));
      await using staying = await listening(() => new Response("done"));
      const status = async (method: string) => {
        await using pool = poolOf([urlOf(leaving), urlOf(staying)]);
        await pool.start();
        const answer = await pool.fetch(new Request("http://front/orders", { method }));
        return [answer.status, await answer.text()] as const;
      };
      assertEquals(await status("GET"), [200, "done"]);
      const [code, text] = await status("POST");
      assertEquals(code, gives ? 503 : 200);
      if (gives) assertEquals([JSON.parse(text).error.code, started], [5006, 2]);
    });
  }
});
