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

/** Returns a client that records the commands and can change the answers. */
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
    it("open refuses a missing queue and says how to create it", async () => {
      const client = clientFor();
      const open = () => SqsMailbox.open(uniqueName(), { client });
      await assertRejects(open, MailboxConnectionError, "create: true");
    });

    it("open finds a queue by its URL and by its name, and creates missing queues", async () => {
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

    it("open creates a client with the passed module, and close destroys it", async () => {
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

    it("openMailbox opens an sqs: URL with the credentials of the environment", async () => {
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

    it("open warns about a missing dead-letter queue, and dead-lettering fails", async () => {
      const client = clientFor();
      const name = uniqueName();
      await client.send(new sdk.CreateQueueCommand({ QueueName: name }));
      const warnings: unknown[] = [];
      const log = {
        ...silentLog,
        warn: (_: string, fields?: object) => void warnings.push(fields),
      };
      await using mailbox = await SqsMailbox.open<string>(name, { client, log });
      assertEquals(warnings, [{ mailbox: name, deadLetterQueue: `${name}-dead` }]);
      await mailbox.send("work");
      const [message] = await mailbox.receive();
      const deadLetter = () => message!.deadLetter({ reason: "test" });
      await assertRejects(deadLetter, MailboxConnectionError, "create: true");
      await message!.acknowledge();
    });

    it("open succeeds without access to the dead-letter queue", async () => {
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
      ["an endpoint that is not a URL", "orders", { endpoint: "me:very-secret@host" }, "Invalid endpoint"],
      ["an endpoint with credentials", "orders", { endpoint: "http://me:very-secret@host" }, "credentials"],
      ["an object that is not a client", "orders", { client: {} }, "SQSClient"],
      ["an empty message group", "orders.fifo", { messageGroupId: "" }, "Invalid messageGroupId"],
      ["an invalid name of a dead-letter queue", "orders", { deadLetterQueue: "a b" }, 'got "a b"'],
    ];
    for (const [what, queue, options, said] of bad) {
      it(`open refuses ${what}`, async () => {
        const error = await assertRejects(
          () => SqsMailbox.open(queue, options),
          InvalidParameterError,
        );
        assertStringIncludes(error.message, said);
        assert(!/very-secret/.test(error.message), "the error contains no secrets");
      });
    }
  });

  describe("sending", () => {
    it("sendMany uses as few requests as possible", async () => {
      const { client, count } = watched();
      await using it = await openForTest({ client });
      await it.mailbox.sendMany(numbers(95));
      assertEquals(count("SendMessageBatch"), 10);
      assertEquals(await it.mailbox.approximateCount(), 95);
    });

    it("no request is larger than the queue accepts", async () => {
      const { client, count } = watched();
      await using it = await openForTest({ client });
      await it.mailbox.sendMany(numbers(4).map(() => "x".repeat(400_000)));
      assertEquals(count("SendMessageBatch"), 2);
    });

    it("send repeats an entry with a transient error", async () => {
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

    it("sendMany reports how many messages were stored when some failed", async () => {
      const { client } = watched((name, answer, input) => {
        const { Entries } = input as { readonly Entries: { readonly Id: string }[] };
        if (name !== "SendMessageBatch" || Entries[0]!.Id !== "10") return answer;
        throw new Error("socket hang up");
      });
      await using it = await openForTest({ client });
      const send = () => it.mailbox.sendMany(numbers(25));
      await assertRejects(send, MailboxConnectionError, "15 of 25 messages were stored and stay");
    });

    it("bodies and ids can have every character", async () => {
      await using it = await openForTest();
      const text = "\u0000\u001F\u007F\uFFFE\uFFFF\uD83C🍵 漢 'é\"\\";
      const name = "\u001F\u007F\uFFFE\uFFFF🍵 漢 'é\"\\"; // no engine accepts NUL or unpaired surrogates
      await it.mailbox.send({ [text]: text }, { id: name, replyTo: name });
      const [message] = await it.mailbox.receive();
      assertEquals([message!.body, message!.id, message!.replyTo], [{ [text]: text }, name, name]);
    });

    it("delays longer than SQS supports: a receive hides messages that are not due", async () => {
      const { client, sent } = watched();
      await using it = await openForTest({ client });
      let now = Date.now();
      const clock = { ...systemClock, now: () => now };
      await using mailbox = await SqsMailbox.open<unknown>(it.name, { client, clock });
      await mailbox.send("work", { delayMs: 3_600_000 });
      const [entry] = sent.at(-1)!.input["Entries"] as [sdk.SendMessageBatchRequestEntry];
      assertEquals(entry.DelaySeconds, 900);
      // The same message without the delay, as after it.
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

  it("receive uses as few requests as possible", async () => {
    const { client, count, sent } = watched();
    await using it = await openForTest({ client });
    await it.mailbox.sendMany(numbers(75));
    assertEquals((await it.mailbox.receive({ maxMessages: 200 })).length, 75);
    assertEquals(
      count("ReceiveMessage"),
      1 + 2 + 4 + 8,
      "more parallel requests while the answers are full",
    );
    sent.length = 0;
    assertEquals(await it.mailbox.receive({ maxMessages: 100 }), []);
    assertEquals(count("ReceiveMessage"), 1, "one request for an empty queue");
  });

  it("receive returns the messages of successful requests when others fail", async () => {
    let requests = 0;
    const { client } = watched((name, answer) => {
      if (name !== "ReceiveMessage" || ++requests !== 3) return answer;
      throw new Error("socket hang up");
    });
    await using it = await openForTest({ client });
    await it.mailbox.sendMany(numbers(30));
    assertEquals((await it.mailbox.receive({ maxMessages: 30 })).length, 20);
  });

  it("receives messages of other programs, which have no attributes", async () => {
    await using it = await openForTest();
    const QueueUrl = `${endpoint}/000000000000/${it.name}`;
    const { MessageId } = await it.client.send(
      new sdk.SendMessageCommand({ QueueUrl, MessageBody: '{"item":"tea"}' }),
    );
    const [message] = await it.mailbox.receive();
    assertEquals([message!.id, message!.body], [MessageId, { item: "tea" }]);
  });

  it("acknowledge extends a lease that is about to end, and returns false when SQS refuses", async () => {
    const { client, sent } = watched();
    await using it = await openForTest({ client });
    await using other = await openForTest({ name: it.name });
    await it.mailbox.send("work");
    const [late] = await it.mailbox.receive({ visibilityTimeoutMs: 1_000 });
    // As if the clocks differed: the lease has ended on the service.
    const QueueUrl = `${endpoint}/000000000000/${it.name}`;
    await other.client.send(
      new sdk.ChangeMessageVisibilityCommand({
        ...{ QueueUrl, ReceiptHandle: late!.receiptHandle, VisibilityTimeout: 0 },
      }),
    );
    const [again] = await other.mailbox.receive();
    assertEquals(again!.deliveryCount, 2);
    assertEquals(await it.mailbox.acknowledgeMany!([late!]), [false]);
    assert(!sent.some(({ name }) => name === "DeleteMessageBatch"), "nothing was deleted");
    await again!.acknowledge();
  });

  it("an extension during an acknowledge does not restore the lease", async () => {
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

  it("saveCheckpoint without a store and peek are refused, and the errors say what to do", async () => {
    await using it = await openForTest();
    await it.mailbox.send("work");
    const [message] = await it.mailbox.receive();
    const save = () => message!.saveCheckpoint("half");
    await assertRejects(save, InvalidParameterError, "`checkpoints`");
    await assertRejects(() => it.mailbox.peek(1), InvalidParameterError, "without delivering it");
    await message!.acknowledge();
  });

  it("the checkpoint that a message was sent with needs no store", async () => {
    await using it = await openForTest();
    await it.mailbox.send("work", { checkpoint: { step: 1, note: "\u00fc \u{1F375}" } });
    const [first] = await it.mailbox.receive({ waitTimeMs: 5_000 });
    assertEquals(first!.checkpoint, { step: 1, note: "\u00fc \u{1F375}" });
    await first!.nack();
    const [second] = await it.mailbox.receive({ waitTimeMs: 5_000 });
    assertEquals(second!.checkpoint, { step: 1, note: "\u00fc \u{1F375}" });
    await second!.acknowledge();
  });

  it("loses no message when the checkpoint store fails", async () => {
    const saved = new Map<string, string>();
    let broken = false;
    const act = <A>(value: () => A): Promise<A> =>
      broken ? Promise.reject(new Error("no disk")) : Promise.resolve(value());
    const checkpoints = {
      get: (id: string) => act(() => saved.get(id)),
      set: (id: string, text: string) => act(() => saved.set(id, text)),
      delete: (id: string) => act(() => saved.delete(id)),
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

  it("errors of the service contain no secrets", async () => {
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
    const texts = [error.message, error.stack, cause.message, cause.stack, JSON.stringify(cause)];
    assert(!texts.join().includes("very-secret"), texts.join("\n"));
  });

  describe("FIFO queues", () => {
    it("FIFO queues keep the order, also after a release, and refuse delays", async () => {
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

    it("FIFO queues get one batch after the other, and none after a failed one", async () => {
      const { client } = watched((name, answer, input) => {
        const { Entries } = input as { readonly Entries: { readonly Id: string }[] };
        if (name !== "SendMessageBatch" || Entries[0]!.Id !== "10") return answer;
        throw new Error("socket hang up");
      });
      await using it = await openForTest({ name: uniqueName(".fifo"), client });
      const send = () => it.mailbox.sendMany(numbers(35));
      await assertRejects(send, MailboxConnectionError, "10 of 35 messages were stored and stay");
    });

    it("FIFO queues store a message whose id was used a moment ago", async () => {
      await using it = await openForTest({ name: uniqueName(".fifo") });
      for (const body of ["first", "second"]) {
        await it.mailbox.send(body, { id: "order-7" });
        const [message] = await it.mailbox.receive();
        assertEquals(message?.body, body);
        await message!.acknowledge();
      }
    });

    it("FIFO queues deliver different message groups in parallel", async () => {
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

    it("FIFO queues deliver dead letters independently of each other", async () => {
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
