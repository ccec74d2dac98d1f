// The files were written by version 0.1.

import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { DirectoryMailbox } from "../../src/coordination/mod.ts";
import { redrive } from "../../src/loops/redrive.ts";
import { makeFolder } from "./_folder.ts";

const TRACE = {
  traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  tracestate: "a=b",
};

const ID = "0e76fa7c-1bc3-4cbf-86da-0935ddfd12d0";

/** Waiting, retried, delivered by a process that died, and dead-lettered messages. */
const FILES: Readonly<Record<string, string>> = {
  [`inbox/1694986644721-00000001-68abd88f~0~0~~${ID}-1.json`]: '{"n":1}',
  [`hidden/001694986644734~~1694986644723-00000002-68abd88f~1~0~m~${ID}-2.json`]: '{"n":2}',
  "more/1694986644723-00000002-68abd88f.json":
    '{"replyTo":"answers","checkpoint":"{\\"page\\":2}"}',
  [`hidden/001694986644740~0a1b2c3d~1694986644723-00000003-68abd88f~1~0~~${ID}-3.json`]:
    `{"lastcall:trace":${JSON.stringify(TRACE)},"body":{"n":3}}`,
  "hidden/001694986644740~burying~1694986644725-00000004-68abd88f~1~0~cm~four.json":
    `{"lastcall:trace":${JSON.stringify(TRACE)},"body":{"n":4}}`,
  "more/1694986644725-00000004-68abd88f.json": '{"replyTo":"answers"}',
  [`dead/inbox/1694986644731-00000001-343536eb~0~0~m~${ID}-5.json`]:
    `{"id":"${ID}-5","body":{"n":5},"reason":"handler_error","error":"Error: x",` +
    '"deliveryCount":1,"enqueuedAt":1694986644726,"deadAt":1694986644731,"replyTo":"answers"}',
  "dead/more/1694986644731-00000001-343536eb.json": '{"replyTo":"answers"}',
};

async function open(base: string): Promise<DirectoryMailbox<unknown>> {
  for (const [path, text] of Object.entries(FILES)) {
    const file = join(base, "orders", path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, text);
  }
  await mkdir(join(base, "orders", "dead", "hidden"));
  return await DirectoryMailbox.open(base, "orders");
}

describe("a directory mailbox of version 0.1", () => {
  it("delivers its messages in order, with reply addresses, traces and checkpoints", async () => {
    await using folder = await makeFolder();
    await using mailbox = await open(folder.path);
    const messages = await mailbox.receive({ maxMessages: 10 });
    const found = messages.map(({ id, body, replyTo, headers, checkpoint, deliveryCount }) => {
      return { id, body, replyTo, headers, checkpoint, deliveryCount };
    });
    const none = { replyTo: undefined, headers: {}, checkpoint: undefined };
    assertEquals(found, [
      { ...none, id: `${ID}-1`, body: { n: 1 }, deliveryCount: 1 },
      {
        ...none,
        id: `${ID}-2`,
        body: { n: 2 },
        replyTo: "answers",
        checkpoint: { page: 2 },
        deliveryCount: 2,
      },
      { ...none, id: `${ID}-3`, body: { n: 3 }, headers: TRACE, deliveryCount: 2 },
      {
        ...none,
        id: "four",
        body: { n: 4 },
        replyTo: "answers",
        headers: TRACE,
        deliveryCount: 2,
      },
    ]);
  });

  it("keeps the reply address when it saves a checkpoint, and refuses the id of a stored message", async () => {
    await using folder = await makeFolder();
    await using mailbox = await open(folder.path);
    const messages = await mailbox.receive({ maxMessages: 10 });
    const last = messages.at(-1)!;
    await last.saveCheckpoint!({ page: 9 });
    await last.release();
    const { stored } = await mailbox.send({ n: 4 }, { id: "four" });
    const [again] = await mailbox.receive();
    assertEquals([stored, again?.id, again?.body, again?.replyTo, again?.checkpoint], [
      false,
      "four",
      { n: 4 },
      "answers",
      { page: 9 },
    ]);
  });

  it("dead-letters its messages with their reply addresses and traces", async () => {
    await using folder = await makeFolder();
    await using mailbox = await open(folder.path);
    const messages = await mailbox.receive({ maxMessages: 10 });
    await messages.at(-1)!.deadLetter({ reason: "handler_error", error: "Error: y" });
    const letters = await mailbox.deadLetters.receive({ maxMessages: 10 });
    assertEquals(
      letters.map(({ replyTo, body: { body, headers } }) => [body, headers, replyTo]),
      [[{ n: 5 }, {}, "answers"], [{ n: 4 }, TRACE, "answers"]],
    );
  });

  it("redrives its dead letters with their reply addresses", async () => {
    await using folder = await makeFolder();
    await using mailbox = await open(folder.path);
    assertEquals(await redrive(mailbox), 1);
    const messages = await mailbox.receive({ maxMessages: 10 });
    const { id, body, replyTo } = messages.at(-1)!;
    assertEquals([messages.length, id, body, replyTo], [5, `${ID}-5`, { n: 5 }, "answers"]);
  });
});
