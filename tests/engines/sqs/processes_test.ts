import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import process from "node:process";
import { fire, hire, replaceOneOfTwo } from "../_workers.ts";
import { endpoint, gate, openForTest, useServer } from "./_sqs.ts";

// The workers take their keys from the environment; the server takes any.
process.env["AWS_ACCESS_KEY_ID"] ??= "test";
process.env["AWS_SECRET_ACCESS_KEY"] ??= "test";

function urlOf(name: string): string {
  return `sqs:${name}?endpoint=${encodeURIComponent(endpoint)}&region=us-east-1`;
}

describe("processes on one queue of SQS", gate, () => {
  useServer();

  it("lose nothing and do nothing twice when one is stopped in the middle and replaced", async () => {
    await using it = await openForTest();
    await replaceOneOfTwo(it.mailbox, urlOf(it.name), 400);
  });

  it("end at once when they wait, and what their poll still takes comes back", async () => {
    await using it = await openForTest();
    const { mailbox } = it;
    await using worker = await hire(urlOf(it.name));
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
