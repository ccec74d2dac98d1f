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

/** Returns a pool that considers every worker healthy. */
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

/** Opens several keep-alive connections to each worker, on which a `fetch` could repeat a request. */
async function warm(...workers: readonly CuttingWorker[]): Promise<void> {
  const ask = async ({ url }: CuttingWorker) => await (await fetch(`${url}/warm`)).text();
  await Promise.all(workers.flatMap((worker) => [ask(worker), ask(worker), ask(worker)]));
}

describe(`WorkerPool on ${runtimeName} with a worker that breaks the connection`, () => {
  for (const method of ["POST", "PUT", "PATCH", "DELETE"]) {
    for (const body of ["tea", null]) {
      it(`WorkerPool does not repeat ${method} with ${body === null ? "no" : "a"} body after a broken connection`, async () => {
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

  it("WorkerPool retries GET and idempotent requests on another worker after a broken connection", async () => {
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
      // Twice, so that each of the two workers is chosen first once.
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

  it("WorkerPool retries POST on another worker when the connection is refused", async () => {
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

  it("WorkerPool does not repeat a POST that kills its worker", async () => {
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
    assertEquals((await other.ask("/health/ready")).status, 200, "the other worker is alive");
  });
});

describe(`WorkerPool on ${runtimeName} with a stopping worker`, () => {
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
    "a handler itself": () => () => terminatingResponse(),
    "a started handler behind a gate": (started) => {
      const open = new ServiceGate();
      return (request) =>
        open.handle(request, () => {
          started();
          return gaveUp();
        });
    },
    "a started handler of Hono": (started) =>
      new Hono().use(drainable(new ServiceGate())).all("*", () => {
        started();
        return gaveUp();
      }).onError((_, c) => c.text("oops", 500)).fetch,
  };
  for (const [who, handler] of Object.entries(stopping)) {
    const hasStarted = who.startsWith("a started");
    it(`WorkerPool ${hasStarted ? "does not retry" : "retries"} POST, and retries GET, when ${who} answers TERMINATING`, async () => {
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
      assertEquals(code, hasStarted ? 503 : 200);
      if (hasStarted) assertEquals([JSON.parse(text).error.code, started], [5006, 2]);
    });
  }
});
