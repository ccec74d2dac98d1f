import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { SendMessageCommand } from "@aws-sdk/client-sqs";
import { SqsMailbox } from "../../../src/engines/sqs/mod.ts";
import { type MakeMailbox, skippedMailboxCases } from "../../../src/testing/mod.ts";
import { hostMailboxCases, realTime } from "../../mailbox/_hosts.ts";
import { clientFor, endpoint, gate, uniqueName, useServer } from "./_sqs.ts";

/** Times of SQS are seconds: so the cases, which mostly wait, wait together. */
const TOGETHER = 16;

const make: MakeMailbox = async (options) => {
  const client = clientFor();
  const name = uniqueName();
  const progress = new Map<string, string>();
  const checkpoints = {
    get: (id: string) => Promise.resolve(progress.get(id)),
    set: (id: string, text: string) => Promise.resolve(progress.set(id, text)),
    delete: (id: string) => Promise.resolve(progress.delete(id)),
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

  it("shows every case but those of what SQS cannot do", async () => {
    const skipped = await skippedMailboxCases(make);
    assertEquals(skipped.map(({ why, topic, name }) => `${why} – ${topic}: ${name}`).sort(), [
      "the engine has no dedup – ids and delays: a message is not stored again while it is there",
      "the engine has no dedup – ids and delays: a sender learns that its message is a duplicate",
      "the engine has no dedup – ids and delays: an id is free again after a purge",
      "the engine has no dedup – ids and delays: an id is free again once its message is acknowledged",
      "the engine has no dedup – ids and delays: several senders of one id store one message",
      "the engine has no exactCount – count, peek and purge: the count is of all messages, whatever their state",
      "the engine has no fifo – count, peek and purge: a look shows the oldest first, and as many as asked for",
      "the engine has no fifo – delivery: messages come in the order they were sent",
      "the engine has no fifo – release and nack: a batch that is given back comes again in its order",
      "the engine has no fifo – release and nack: a released message keeps its place",
      "the engine has no fifo – release and nack: many that are released together keep their places",
      "the engine has no fifo – release and nack: messages whose lease has ended keep their place",
      "the engine has no restoresAttempts – release and nack: a nack spends no attempt when the failure is not the message's fault",
      "the engine has no restoresAttempts – release and nack: a release spends no attempt",
      "the engine has no restoresAttempts – release and nack: after five releases every further one spends its attempt",
      "there is no peek – bounds: a senseless look is refused",
      "there is no peek – count, peek and purge: a look shows the messages and takes none",
      "there is no peek – count, peek and purge: a look shows the text of what cannot be read",
      "there is no peek – traces: a look at a message shows its body without the trace",
    ]);
  });
});
