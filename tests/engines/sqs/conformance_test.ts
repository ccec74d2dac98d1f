import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { SendMessageCommand } from "@aws-sdk/client-sqs";
import { SqsMailbox } from "../../../src/engines/sqs/mod.ts";
import { type MakeMailbox, skippedMailboxCases } from "../../../src/testing/mod.ts";
import { hostMailboxCases, realTime } from "../../mailbox/_hosts.ts";
import { clientFor, endpoint, gate, uniqueName, useServer } from "./_sqs.ts";

/** SQS counts whole seconds, and the cases mostly wait: they run together. */
const TOGETHER = 16;

const make: MakeMailbox = async (options) => {
  const client = clientFor();
  const name = uniqueName();
  const saved = new Map<string, string>();
  const checkpoints = {
    get: (id: string) => Promise.resolve(saved.get(id)),
    set: (id: string, text: string) => Promise.resolve(saved.set(id, text)),
    delete: (id: string) => Promise.resolve(saved.delete(id)),
  };
  const open = () =>
    SqsMailbox.open<unknown>(name, {
      ...options,
      ...{ client, checkpoints, create: true, maxBodyBytes: 4_096 },
    });
  return {
    mailbox: await open(),
    tickMs: 1_000,
    pass: realTime,
    sibling: open,
    async sendRaw(MessageBody) {
      const QueueUrl = `${endpoint}/000000000000/${name}`;
      await client.send(new SendMessageCommand({ QueueUrl, MessageBody }));
    },
    maxBodyBytes: 4_096,
    lacks: ["peek"],
    close() {
      client.destroy();
      return Promise.resolve();
    },
  };
};

describe("SqsMailbox", gate, () => {
  useServer();

  hostMailboxCases(make, { engine: "SQS", together: TOGETHER });

  it("an SQS queue lacks order, dedup, an exact count, restored attempts and peek, and nothing else", async () => {
    const reasons = new Set((await skippedMailboxCases(make)).map(({ why }) => why));
    assertEquals([...reasons].sort(), [
      "the engine has no dedup",
      "the engine has no exactCount",
      "the engine has no fifo",
      "the engine has no restoresAttempts",
      "there is no peek",
    ]);
  });
});
