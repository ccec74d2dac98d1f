import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { deferred } from "../../src/_promises.ts";
import { silentLog } from "../../src/log.ts";
import { WorkerPool } from "../../src/service/mod.ts";
import { detectRuntime } from "../../runtime_adapters/detect.ts";
import { ServiceProcess } from "./_process.ts";

const CLIENTS = 20;
/** The responses before the first worker stops: an idle worker would close immediately. */
const WARM_UP = 500;

const startWorker = (port: number) => ServiceProcess.start("fixtures/counting.ts", String(port));

/** Stops a worker. Resolves with the number of requests that it executed. */
async function stop(worker: ServiceProcess): Promise<number> {
  worker.signal("SIGTERM");
  assertEquals(await worker.ended(), 0, worker.stderr);
  return Number(/executed (\d+)/.exec(worker.stdout)?.[1]);
}

/** Resolves when all workers of the pool are healthy. */
async function allHealthy(pool: WorkerPool): Promise<void> {
  while (!pool.workers.every(({ healthy }) => healthy)) {
    const changed = deferred();
    const off = pool.on("worker", () => changed.resolve());
    await changed.promise;
    off();
  }
}

describe(`a rolling restart of workers on ${detectRuntime().name}`, () => {
  it("WorkerPool loses and repeats no POST during a rolling restart of its workers", async () => {
    await using first = await startWorker(0);
    await using second = await startWorker(0);
    await using pool = new WorkerPool({
      workers: [first.url(""), second.url("")],
      healthEveryMs: 50,
      healthBackoffMs: 50,
      log: silentLog,
    });
    await pool.start();
    const warm = deferred();
    const loaded = deferred();
    let [over, answered] = [false, 0];
    const wrong: string[] = [];
    const client = async () => {
      while (!over) {
        const request = new Request("http://front/orders", { method: "POST", body: "tea" });
        try {
          const answer = await pool.fetch(request);
          const text = await answer.text();
          if (answer.status !== 200) wrong.push(`${answer.status} ${text}`);
          else if (++answered === WARM_UP) warm.resolve();
          else if (answered > 2 * WARM_UP) loaded.resolve();
        } catch (error) {
          wrong.push(String(error));
        }
      }
    };
    const load = Promise.all(Array.from({ length: CLIENTS }, client));
    await warm.promise;
    let executed = await stop(first);
    await using third = await startWorker(first.port);
    await allHealthy(pool);
    executed += await stop(second);
    await using fourth = await startWorker(second.port);
    await allHealthy(pool);
    await loaded.promise; // a busy machine needs longer for so many requests
    over = true;
    await load;
    executed += await stop(third) + await stop(fourth);
    assertEquals(wrong.slice(0, 5), []);
    assertEquals(executed, answered);
  });
});
