import { describe, it } from "node:test";
import { assert, assertEquals, assertGreater } from "@std/assert";
import { Child } from "../../signals/_child.ts";
import { eventually, gate, openForTest, url } from "./_redis.ts";

const JOBS = 2_000;

function hire(name: string): Child {
  return Child.start("../../engines/redis/fixtures/worker", { args: [url, name] });
}

/** Ends a worker and tells what it has completed. */
async function fire(worker: Child): Promise<number[]> {
  worker.kill("SIGTERM");
  const { code, stdout, stderr } = await worker.exit();
  assertEquals(code, 0, `${stdout}\n${stderr}`);
  return [...stdout.matchAll(/^done (\d+)$/gm)].map(([, job]) => Number(job));
}

describe("processes on one Redis server", gate, () => {
  it("lose nothing and do nothing twice when one is stopped in the middle and replaced", async () => {
    await using it = await openForTest(url);
    const { mailbox, name } = it;
    const jobs = Array.from({ length: JOBS }, (_, i) => i);
    const left = () => mailbox.approximateCount();

    await using first = hire(name);
    await using second = hire(name);
    await Promise.all([first.line("ready"), second.line("ready")]);
    await mailbox.sendMany(jobs);
    await eventually(async () => assert(await left() < JOBS * 0.75, "a quarter is done"));
    const ledger = await fire(first);
    assertGreater(await left(), 0, "it was stopped in the middle");
    await using third = hire(name);
    await third.line("ready");
    await eventually(async () => assertEquals(await left(), 0));
    ledger.push(...await fire(second), ...await fire(third));

    assertEquals(ledger.sort((a, b) => a - b), jobs);
    assertEquals(await mailbox.deadLetters.approximateCount(), 0);
  });
});
