import { describe, it } from "node:test";
import { assert, assertEquals, assertGreater } from "@std/assert";
import { Child } from "../../signals/_child.ts";
import { eventually, gate, openForTest } from "./_kv.ts";

const JOBS = 200;
const NO_POLL = { name: "orders", pollIntervalMs: 600_000 };

function startWorker(path: string, ms: number, leaseMs = 60_000): Child {
  return Child.start("../../engines/deno_kv/fixtures/worker", {
    runFlags: ["run", "-A", "--unstable-kv"],
    args: [path, `${ms}`, `${leaseMs}`],
  });
}

/** Stops a worker and returns the messages that it handled. */
async function stopWorker(worker: Child): Promise<number[]> {
  worker.kill("SIGTERM");
  const { code, stdout, stderr } = await worker.exit();
  assertEquals(code, 0, `${stdout}\n${stderr}`);
  return [...stdout.matchAll(/^done (\d+)$/gm)].map(([, job]) => Number(job));
}

describe("processes on one file of Deno KV", gate, () => {
  it("receive the messages of other processes by polling", async () => {
    await using it = await openForTest(NO_POLL);
    await using worker = startWorker(it.path, 0);
    await worker.line("ready");
    await it.mailbox.send(1);
    await worker.line("done 1");
    await new Promise((resolve) => setTimeout(resolve, 100)); // until it waits
    await it.mailbox.send(2);
    await worker.line("done 2");
    await stopWorker(worker);
    assertEquals(await it.mailbox.approximateCount(), 0);
  });

  it("handle every message once when one process is stopped and replaced", async () => {
    await using it = await openForTest(NO_POLL);
    const { mailbox, path } = it;
    const jobs = Array.from({ length: JOBS }, (_, i) => i);
    const left = () => mailbox.approximateCount();
    await using first = startWorker(path, 20);
    await using second = startWorker(path, 20);
    await Promise.all([first.line("ready"), second.line("ready")]);
    await mailbox.sendMany(jobs);
    await eventually(async () => assert(await left() < JOBS * 0.75, "a quarter is done"));
    const handled = await stopWorker(first);
    assertGreater(await left(), 0, "it was stopped before the queue was empty");
    await using third = startWorker(path, 20);
    await third.line("ready");
    await eventually(async () => assertEquals(await left(), 0));
    handled.push(...await stopWorker(second), ...await stopWorker(third));
    assertEquals(handled.sort((a, b) => a - b), jobs);
    assertEquals(await mailbox.deadLetters.approximateCount(), 0);
  });

  it("receive the message of a killed process when its lease ends", async () => {
    await using it = await openForTest(NO_POLL);
    await using worker = startWorker(it.path, 60_000, 2_000);
    await worker.line("ready");
    const { id } = await it.mailbox.send(1);
    await worker.line("received 1");
    assertEquals(await it.mailbox.receive(), []);
    worker.kill("SIGKILL");
    await worker.exit();
    const [message] = await it.mailbox.receive({ waitTimeMs: 20_000 });
    assertEquals([message?.id, message?.deliveryCount], [id, 2]);
    await message!.acknowledge();
  });
});
