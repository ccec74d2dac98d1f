import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import process from "node:process";
import { fire, hire, replaceOneOfTwo } from "../_workers.ts";
import { endpoint, gate, openForTest, useServer } from "./_sqs.ts";

// The workers read their credentials from the environment. The server accepts any.
process.env["AWS_ACCESS_KEY_ID"] ??= "test";
process.env["AWS_SECRET_ACCESS_KEY"] ??= "test";

function urlOf(name: string): string {
  return `sqs:${name}?endpoint=${encodeURIComponent(endpoint)}&region=us-east-1`;
}

describe("processes on one queue of SQS", gate, () => {
  useServer();

  it("handle every message once when one worker is stopped and replaced", async () => {
    await using it = await openForTest();
    await replaceOneOfTwo(it.mailbox, urlOf(it.name), 400);
  });

  it("stop at once while they wait, and a message that their poll receives reappears", async () => {
    await using it = await openForTest();
    const { mailbox } = it;
    await using worker = await hire(urlOf(it.name));
    await mailbox.send(1);
    await worker.line("done 1");
    await new Promise((resolve) => setTimeout(resolve, 200)); // until it waits
    const stoppedAt = performance.now();
    await fire(worker);
    assert(performance.now() - stoppedAt < 5_000, "before its poll ends");
    // The server does not notice the closed connection, and delivers the message to it.
    await mailbox.send(2);
    const [message] = await mailbox.receive({ waitTimeMs: 40_000 });
    assertEquals(message?.body, 2);
    assert(performance.now() - stoppedAt < 30_000, "before the visibility timeout passes");
    await message!.acknowledge();
  });
});
