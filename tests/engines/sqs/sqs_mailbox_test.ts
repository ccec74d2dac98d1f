import process from "node:process";
import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import * as sdk from "@aws-sdk/client-sqs";
import { systemClock } from "../../../src/clock.ts";
import { openMailbox } from "../../../src/engines/open_mailbox.ts";
import { SqsMailbox } from "../../../src/engines/sqs/mod.ts";
import { silentLog } from "../../../src/log.ts";
import { InvalidParameterError, MailboxConnectionError } from "../../../src/mailbox/errors.ts";
import { clientFor, endpoint, gate, openForTest, uniqueName, useServer } from "./_sqs.ts";

/** A client that tells which commands went through it, and may change the answers. */
function watched(
  change: (name: string, answer: object, input: object) => unknown = (_, answer) => answer,
) {
  const client = clientFor();
  const sent: { readonly name: string; readonly input: Record<string, unknown> }[] = [];
  return {
    sent,
    count: (name: string) => sent.filter((it) => it.name === name).length,
    client: {
      async send(command: { readonly input: object }, options?: object) {
        const name = command.constructor.name.replace("Command", "");
        sent.push({ name, input: command.input as Record<string, unknown> });
        return change(name, await client.send(command as never, options as never), command.input);
      },
    },
  };
}

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);

describe("SqsMailbox", gate, () => {
  useServer();

  describe("opening", () => {
    it("refuses a queue that is not there, and says how to get it", async () => {
      const client = clientFor();
      const open = () => SqsMailbox.open(uniqueName(), { client });
      await assertRejects(open, MailboxConnectionError, "create: true");
    });

    it("finds a queue by its URL and by its name, and makes what is missing", async () => {
      await using first = await openForTest({ name: uniqueName() });
      const url = `${endpoint}/000000000000/${first.name}`;
      await using byUrl = await SqsMailbox.open(url, { client: first.client });
      assertEquals(byUrl.name, first.name);
      await byUrl.send("work");
      const [message] = await first.mailbox.receive();
      await message!.deadLetter({ reason: "test" });
      await using byName = await SqsMailbox.open(first.name, { client: first.client });
      assertEquals(await byName.deadLetters.approximateCount(), 1);
    });

    it("makes a client of its own, with the module that was handed in", async () => {
      const made: unknown[] = [];
      class Watched extends sdk.SQSClient {
        constructor(config: sdk.SQSClientConfig) {
          made.push(config);
          super({ ...config, credentials: { accessKeyId: "a", secretAccessKey: "b" } });
        }
        override destroy() {
          made.push("destroyed");
          super.destroy();
        }
      }
      const url = `${endpoint}/000000000000/${uniqueName()}`;
      const options = { create: true, region: "us-east-1", sdk: { ...sdk, SQSClient: Watched } };
      const mailbox = await SqsMailbox.open<string>(url, options);
      await mailbox.send("work");
      await mailbox.close();
      assertEquals(made, [{ region: "us-east-1", endpoint }, "destroyed"]);
    });

    it("opens what a mailbox URL names, with what the environment has", async () => {
      const keys = { AWS_ACCESS_KEY_ID: "a", AWS_SECRET_ACCESS_KEY: "b", AWS_REGION: "us-east-1" };
      const before = { ...process.env };
      Object.assign(process.env, keys);
      try {
        const name = uniqueName();
        const encoded = encodeURIComponent(endpoint);
        const url = `sqs:${name}?endpoint=${encoded}&create=true&deadLetterQueue=${name}-lost`;
        await using mailbox = await openMailbox<string>(url);
        assert(mailbox instanceof SqsMailbox && mailbox.name === name);
        await using same = await openMailbox<string>(`sqs:${endpoint}/000000000000/${name}-lost`);
        await mailbox.send("work");
        await (await mailbox.receive())[0]!.deadLetter({ reason: "test" });
        assertEquals(await same.approximateCount(), 1);
      } finally {
        for (const key of Object.keys(keys)) delete process.env[key];
        Object.assign(process.env, before);
      }
    });

    it("warns when there is nowhere to bury, and says so again when it matters", async () => {
      const client = clientFor();
      const name = uniqueName();
      await client.send(new sdk.CreateQueueCommand({ QueueName: name }));
      const warnings: string[] = [];
      const log = { ...silentLog, warn: (text: string) => void warnings.push(text) };
      await using mailbox = await SqsMailbox.open<string>(name, { client, log });
      assertEquals(warnings.length, 1);
      assertStringIncludes(warnings[0]!, `"${name}-dead"`);
      await mailbox.send("work");
      const [message] = await mailbox.receive();
      const bury = () => message!.deadLetter({ reason: "test" });
      await assertRejects(bury, MailboxConnectionError, "create: true");
      await message!.acknowledge();
    });

    it("opens also where nobody may ask for the dead letters", async () => {
      const { client } = watched((name, answer, input) => {
        const { QueueUrl = "" } = input as { readonly QueueUrl?: string };
        if (name !== "GetQueueAttributes" || !QueueUrl.endsWith("-dead")) return answer;
        throw Object.assign(new Error("not authorized"), { name: "AccessDenied" });
      });
      await using it = await openForTest({ client });
      await it.mailbox.send("work");
    });

    // deno-fmt-ignore -- a table: one bad input a line
    const bad: readonly (readonly [what: string, queue: string, options: object, said: string])[] = [
      ["a name with a slash", "a/b", {}, 'got "a/b"'],
      ["a name that is too long", "x".repeat(81), {}, "1 to 80"],
      ["no name", "", {}, 'got ""'],
      ["a URL without a queue", "https://sqs.eu-west-1.amazonaws.com/", {}, "Invalid queue"],
      ["a URL with credentials", "https://me:very-secret@host/1/orders", {}, "without credentials"],
      ["a URL with parameters", "https://host/1/orders?very-secret", {}, "without credentials"],
      ["an endpoint that is none", "orders", { endpoint: "me:very-secret@host" }, "Invalid endpoint"],
      ["an endpoint with credentials", "orders", { endpoint: "http://me:very-secret@host" }, "credentials"],
      ["a client that is none", "orders", { client: {} }, "SQSClient"],
      ["a group that is none", "orders.fifo", { messageGroupId: "" }, "Invalid messageGroupId"],
      ["a dead letter queue that is none", "orders", { deadLetterQueue: "a b" }, 'got "a b"'],
    ];
    for (const [what, queue, options, said] of bad) {
      it(`refuses ${what}`, async () => {
        const error = await assertRejects(
          () => SqsMailbox.open(queue, options),
          InvalidParameterError,
        );
        assertStringIncludes(error.message, said);
        assert(!/very-secret/.test(error.message), "it tells no secrets");
      });
    }
  });

  describe("sending", () => {
    it("sends many in as few requests as possible", async () => {
      const { client, count } = watched();
      await using it = await openForTest({ client });
      await it.mailbox.sendMany(numbers(95));
      assertEquals(count("SendMessageBatch"), 10);
      assertEquals(await it.mailbox.approximateCount(), 95);
    });

    it("makes no request larger than the queue takes", async () => {
      const { client, count } = watched();
      await using it = await openForTest({ client });
      await it.mailbox.sendMany(numbers(4).map(() => "x".repeat(400_000)));
      assertEquals(count("SendMessageBatch"), 2);
    });

    it("tries an entry again that failed for a reason that may pass", async () => {
      let throttled = 2;
      const { client, sent } = watched((name, answer, input) => {
        if (name !== "SendMessageBatch" || throttled-- <= 0) return answer;
        const { Entries } = input as { readonly Entries: { readonly Id: string }[] };
        const Failed = [{ Id: Entries.at(-1)!.Id, Code: "RequestThrottled", SenderFault: true }];
        return { Successful: [], Failed };
      });
      await using it = await openForTest({ client });
      await it.mailbox.sendMany([1, 2, 3]);
      const sizes = sent.filter(({ name }) => name === "SendMessageBatch")
        .map(({ input }) => (input["Entries"] as unknown[]).length);
      assertEquals(sizes, [3, 1, 1]);
    });

    it("tells how many are stored when not all are, and undoes nothing", async () => {
      const { client } = watched((name, answer, input) => {
        const { Entries } = input as { readonly Entries: { readonly Id: string }[] };
        if (name !== "SendMessageBatch" || Entries[0]!.Id !== "10") return answer;
        throw new Error("socket hang up");
      });
      await using it = await openForTest({ client });
      const send = () => it.mailbox.sendMany(numbers(25));
      await assertRejects(send, MailboxConnectionError, "15 of 25 messages were stored and stay");
    });

    it("takes every character, as bodies and as ids", async () => {
      await using it = await openForTest();
      const text = "\u0000\u001F\u007F\uFFFE\uFFFF\uD83C🍵 漢 'é\"\\";
      const name = "\u001F\u007F\uFFFE\uFFFF🍵 漢 'é\"\\"; // no engine takes NUL or half a character
      await it.mailbox.send({ [text]: text }, { id: name, replyTo: name });
      const [message] = await it.mailbox.receive();
      assertEquals([message!.body, message!.id, message!.replyTo], [{ [text]: text }, name, name]);
    });

    it("delays for longer than SQS can, by putting off what is received too early", async () => {
      const { client, sent } = watched();
      await using it = await openForTest({ client });
      let now = Date.now();
      const clock = { ...systemClock, now: () => now };
      await using mailbox = await SqsMailbox.open<unknown>(it.name, { client, clock });
      await mailbox.send("work", { delayMs: 3_600_000 });
      const [entry] = sent.at(-1)!.input["Entries"] as [sdk.SendMessageBatchRequestEntry];
      assertEquals(entry.DelaySeconds, 900);
      // The same without the delay, as it is when that is over.
      const { MessageBody, MessageAttributes } = entry;
      const QueueUrl = `${endpoint}/000000000000/${it.name}`;
      await client.send(
        new sdk.SendMessageCommand({ QueueUrl, MessageBody, MessageAttributes }),
      );
      now += 900_000;
      assertEquals(await mailbox.receive(), []);
      const hidden = sent.filter(({ name }) => name === "ChangeMessageVisibilityBatch")
        .map(({ input }) => input["Entries"] as [{ readonly VisibilityTimeout: number }]);
      assertEquals(hidden.map(([{ VisibilityTimeout }]) => VisibilityTimeout), [2_700]);
    });
  });

  it("receives as many as are wanted, and asks no more than it must", async () => {
    const { client, count, sent } = watched();
    await using it = await openForTest({ client });
    await it.mailbox.sendMany(numbers(75));
    assertEquals((await it.mailbox.receive({ maxMessages: 200 })).length, 75);
    assertEquals(count("ReceiveMessage"), 1 + 2 + 4 + 8, "more at once while the answers are full");
    sent.length = 0;
    assertEquals(await it.mailbox.receive({ maxMessages: 100 }), []);
    assertEquals(count("ReceiveMessage"), 1, "an empty queue is asked once");
  });

  it("keeps what some of several requests have brought when others fail", async () => {
    let requests = 0;
    const { client } = watched((name, answer) => {
      if (name !== "ReceiveMessage" || ++requests !== 3) return answer;
      throw new Error("socket hang up");
    });
    await using it = await openForTest({ client });
    await it.mailbox.sendMany(numbers(30));
    assertEquals((await it.mailbox.receive({ maxMessages: 30 })).length, 20);
  });

  it("reads messages of others, which have no attributes of ours", async () => {
    await using it = await openForTest();
    const QueueUrl = `${endpoint}/000000000000/${it.name}`;
    const { MessageId } = await it.client.send(
      new sdk.SendMessageCommand({ QueueUrl, MessageBody: '{"item":"tea"}' }),
    );
    const [message] = await it.mailbox.receive();
    assertEquals([message!.id, message!.body], [MessageId, { item: "tea" }]);
  });

  it("asks before it deletes near the end of a lease, and believes the answer", async () => {
    const { client, sent } = watched();
    await using it = await openForTest({ client });
    await using other = await openForTest({ name: it.name });
    await it.mailbox.send("work");
    const [late] = await it.mailbox.receive({ visibilityTimeoutMs: 1_000 });
    // As if the clocks did not agree: the service let it go already.
    const QueueUrl = `${endpoint}/000000000000/${it.name}`;
    await other.client.send(
      new sdk.ChangeMessageVisibilityCommand({
        ...{ QueueUrl, ReceiptHandle: late!.receiptHandle, VisibilityTimeout: 0 },
      }),
    );
    const [taken] = await other.mailbox.receive();
    assertEquals(taken!.deliveryCount, 2);
    assertEquals(await it.mailbox.acknowledgeMany!([late!]), [false]);
    assert(!sent.some(({ name }) => name === "DeleteMessageBatch"), "nothing was deleted");
    await taken!.acknowledge();
  });

  it("does not bring back a lease that was being extended when its message was done", async () => {
    const { client } = watched(async (name, answer) => {
      if (name === "ChangeMessageVisibilityBatch") await it.mailbox.acknowledgeMany!([message!]);
      return answer;
    });
    await using it = await openForTest({ client });
    await it.mailbox.send("work");
    const [message] = await it.mailbox.receive({ visibilityTimeoutMs: 60_000 });
    assertEquals(await it.mailbox.extendMany!([message!], 120_000), [false]);
    assertEquals(await it.mailbox.extendMany!([message!], 1_000), [false]);
  });

  it("refuses what SQS cannot do, and says what to do", async () => {
    await using it = await openForTest();
    await it.mailbox.send("work");
    const [message] = await it.mailbox.receive();
    const save = () => message!.saveCheckpoint("half");
    await assertRejects(save, InvalidParameterError, "`checkpoints`");
    await assertRejects(() => it.mailbox.peek(1), InvalidParameterError, "without delivering it");
    await message!.acknowledge();
  });

  it("delivers the checkpoint that a message was sent with, also without a store", async () => {
    await using it = await openForTest();
    await it.mailbox.send("work", { checkpoint: { step: 1, note: "\u00fc \u{1F375}" } });
    const [first] = await it.mailbox.receive({ waitTimeMs: 5_000 });
    assertEquals(first!.checkpoint, { step: 1, note: "\u00fc \u{1F375}" });
    await first!.nack();
    const [second] = await it.mailbox.receive({ waitTimeMs: 5_000 });
    assertEquals(second!.checkpoint, { step: 1, note: "\u00fc \u{1F375}" });
    await second!.acknowledge();
  });

  it("loses no message when the store of checkpoints fails", async () => {
    const progress = new Map<string, string>();
    let broken = false;
    const act = <A>(value: () => A): Promise<A> =>
      broken ? Promise.reject(new Error("no disk")) : Promise.resolve(value());
    const checkpoints = {
      get: (id: string) => act(() => progress.get(id)),
      set: (id: string, text: string) => act(() => progress.set(id, text)),
      delete: (id: string) => act(() => progress.delete(id)),
    };
    await using it = await openForTest({ checkpoints });
    await it.mailbox.send("work");
    const [first] = await it.mailbox.receive();
    await first!.saveCheckpoint("half");
    await first!.release();
    broken = true;
    await assertRejects(() => it.mailbox.receive(), MailboxConnectionError, "no disk");
    broken = false;
    const [again] = await it.mailbox.receive();
    assertEquals(again!.checkpoint, "half");
    broken = true;
    await again!.acknowledge();
    assertEquals(await it.mailbox.approximateCount(), 0);
  });

  it("tells no secrets when the service refuses", async () => {
    const { client } = watched((name, answer) => {
      if (name !== "GetQueueAttributes") return answer;
      const text = "The request signature does not match.\nx-amz-security-token:very-secret";
      const error = Object.assign(new Error(text), { $response: { headers: "very-secret" } });
      throw Object.assign(error, { name: "SignatureDoesNotMatch" });
    });
    const error = await assertRejects(() => openForTest({ client }), MailboxConnectionError);
    assertStringIncludes(error.message, "check the credentials");
    const { cause } = error;
    assert(cause instanceof Error);
    const told = [error.message, error.stack, cause.message, cause.stack, JSON.stringify(cause)];
    assert(!told.join().includes("very-secret"), told.join("\n"));
  });

  describe("FIFO queues", () => {
    it("keep the order, also after a release, and know no delays", async () => {
      await using it = await openForTest({ name: uniqueName(".fifo") });
      const { mailbox } = it;
      assertEquals([mailbox.capabilities.fifo, mailbox.capabilities.delay], [true, false]);
      await mailbox.sendMany(numbers(25));
      await (await mailbox.receive())[0]!.release();
      const seen: unknown[] = [];
      for (const _ of numbers(25)) {
        const [message] = await mailbox.receive();
        seen.push(message!.body);
        await message!.acknowledge();
      }
      assertEquals(seen, numbers(25));
      const send = () => mailbox.send("late", { delayMs: 1_000 });
      await assertRejects(send, InvalidParameterError, "FIFO");
    });

    it("take one batch after the other, and none after one that failed", async () => {
      const { client } = watched((name, answer, input) => {
        const { Entries } = input as { readonly Entries: { readonly Id: string }[] };
        if (name !== "SendMessageBatch" || Entries[0]!.Id !== "10") return answer;
        throw new Error("socket hang up");
      });
      await using it = await openForTest({ name: uniqueName(".fifo"), client });
      const send = () => it.mailbox.sendMany(numbers(35));
      await assertRejects(send, MailboxConnectionError, "10 of 35 messages were stored and stay");
    });

    it("do not lose a message whose id was used a moment ago", async () => {
      await using it = await openForTest({ name: uniqueName(".fifo") });
      for (const body of ["first", "second"]) {
        await it.mailbox.send(body, { id: "order-7" });
        const [message] = await it.mailbox.receive();
        assertEquals(message?.body, body);
        await message!.acknowledge();
      }
    });

    it("have groups that are received side by side", async () => {
      await using it = await openForTest({
        name: uniqueName(".fifo"),
        messageGroupId: (body) => `user-${(body as { readonly user: number }).user}`,
      });
      await it.mailbox.sendMany([{ user: 1 }, { user: 1 }, { user: 2 }]);
      const [first] = await it.mailbox.receive();
      const [second] = await it.mailbox.receive();
      assertEquals([first!.body, second!.body], [{ user: 1 }, { user: 2 }]);
      assertEquals(await it.mailbox.receive(), []);
    });

    it("have dead letters that do not hold up each other", async () => {
      await using it = await openForTest({ name: uniqueName(".fifo") });
      for (const body of ["a", "b"]) {
        await it.mailbox.send(body);
        const [message] = await it.mailbox.receive();
        await message!.deadLetter({ reason: "test" });
      }
      const first = await it.mailbox.deadLetters.receive();
      const second = await it.mailbox.deadLetters.receive();
      assertEquals([...first, ...second].map(({ body }) => body.body), ["a", "b"]);
      assertEquals(it.mailbox.deadLetters.capabilities.fifo, false);
    });
  });
});
