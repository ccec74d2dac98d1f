import { describe, it } from "node:test";
import { assert, assertEquals, assertGreater } from "@std/assert";
import { Child } from "../../signals/_child.ts";
import { endpoint, eventually, gate, openForTest, useServer } from "./_sqs.ts";

const JOBS = 400;

function hire(name: string): Child {
  return Child.start("../../engines/sqs/fixtures/worker", { args: [endpoint, name] });
}

/** Ends a worker and tells what it has completed. */
async function fire(worker: Child): Promise<number[]> {
  worker.kill("SIGTERM");
  const { code, stdout, stderr } = await worker.exit();
  assertEquals(code, 0, `${stdout}\n${stderr}`);
  return [...stdout.matchAll(/^done (\d+)$/gm)].map(([, job]) => Number(job));
}

describe("processes on one queue of SQS", gate, () => {
  useServer();

  it("lose nothing and do nothing twice when one is stopped in the middle and replaced", async () => {
    await using it = await openForTest();
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

  it("end at once when they wait, and what their poll still takes comes back", async () => {
    await using it = await openForTest();
    const { mailbox } = it;
    await using worker = hire(it.name);
    await worker.line("ready");
    await mailbox.send(1);
    await worker.line("done 1");
    await new Promise((resolve) => setTimeout(resolve, 200)); // so that it waits by now
    const stoppedAt = performance.now();
    await fire(worker);
    assert(performance.now() - stoppedAt < 5_000, "and not when the poll runs out");
    // This server does not notice that the other end has gone, and hands the message to nobody.
    await mailbox.send(2);
    const [message] = await mailbox.receive({ waitTimeMs: 40_000 });
    assertEquals(message?.body, 2);
    assert(performance.now() - stoppedAt < 30_000, "within seconds, not within the visibility");
    await message!.acknowledge();
  });
});
