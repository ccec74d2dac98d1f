import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { SendMessageCommand } from "@aws-sdk/client-sqs";
import { SqsMailbox } from "../../../src/engines/sqs/mod.ts";
import { type MakeMailbox, skippedMailboxCases } from "../../../src/testing/mod.ts";
import { BEYOND_BASIC, hostMailboxCases, realTime } from "../../mailbox/_hosts.ts";
import { clientFor, endpoint, gate, uniqueName, useServer } from "./_sqs.ts";

/** SQS counts whole seconds, and the cases mostly wait: they run together. */
const TOGETHER = 16;

/** Makes mailboxes on standard queues, or on FIFO queues with keys. */
const makeWith = (keys: boolean): MakeMailbox => async (options) => {
  const client = clientFor();
  const name = uniqueName(keys ? ".fifo" : "");
  const saved = new Map<string, string>();
  const checkpoints = {
    get: (id: string) => Promise.resolve(saved.get(id)),
    set: (id: string, text: string) => Promise.resolve(saved.set(id, text)),
    delete: (id: string) => Promise.resolve(saved.delete(id)),
  };
  const open = () =>
    SqsMailbox.open<unknown>(name, {
      ...options,
      ...{ client, checkpoints, keys, create: true, maxBodyBytes: 4_096 },
    });
  return {
    mailbox: await open(),
    tickMs: 1_000,
    pass: realTime,
    sibling: open,
    async sendRaw(MessageBody) {
      const QueueUrl = `${endpoint}/000000000000/${name}`;
      const id = crypto.randomUUID();
      const fifo = keys ? { MessageGroupId: id, MessageDeduplicationId: id } : {};
      await client.send(new SendMessageCommand({ QueueUrl, MessageBody, ...fifo }));
    },
    maxBodyBytes: 4_096,
    lacks: ["peek", "queues"],
    close() {
      client.destroy();
      return Promise.resolve();
    },
  };
};

const lacksOf = async (make: MakeMailbox) =>
  [...new Set((await skippedMailboxCases(make)).map(({ why }) => why))].sort();

describe("SqsMailbox", gate, () => {
  const make = makeWith(false);
  useServer();

  hostMailboxCases(make, { engine: "SQS", together: TOGETHER });

  it("an SQS queue lacks what SQS has no means for, and nothing else", async () => {
    assertEquals(await lacksOf(make), [
      "the engine has no dedup",
      "the engine has no exactCount",
      "the engine has no exactStats",
      "the engine has no fifo",
      "the engine has no keys",
      "the engine has no leaseExpiries",
      "the engine has no longDelays",
      "the engine has no lookup",
      "the engine has no pause",
      "the engine has no priorities",
      "the engine has no rateLimit",
      "the engine has no requests",
      "the engine has no restoresAttempts",
      "there is no peek",
      "there is no queues",
    ]);
  });
});

describe("SqsMailbox on a FIFO queue with keys", gate, () => {
  const make = makeWith(true);
  useServer();

  const lacks = [
    ...["fifo", "delay", "dedup", "exactCount", "exactStats", "restoresAttempts", "peek"] as const,
    ...BEYOND_BASIC.filter((what) => what !== "keys"),
  ];
  hostMailboxCases(make, { lacks, together: TOGETHER });

  it("it has keys, and lacks delays", async () => {
    const found = await lacksOf(make);
    assertEquals(found.includes("the engine has no keys"), false);
    assertEquals(found.includes("the engine has no delay"), true);
  });
});
