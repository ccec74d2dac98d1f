import { describe, it } from "node:test";
import { assertEquals, assertRejects } from "@std/assert";
import { SendMessageCommand } from "@aws-sdk/client-sqs";
import { InvalidParameterError } from "../../../src/mailbox/errors.ts";
import { redrive } from "../../../src/loops/redrive.ts";
import { clientFor, endpoint, gate, openForTest, useServer } from "./_sqs.ts";

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/** Returns all texts in a value. */
function textsIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

describe("the envelope of a message in SQS", gate, () => {
  useServer();

  /** Sends a message as version 0.1 did. */
  async function sendOld(
    it: Awaited<ReturnType<typeof openForTest>>,
    queue: string,
    head: object,
    MessageBody: string,
  ): Promise<void> {
    const attribute = { DataType: "String", StringValue: JSON.stringify(head) };
    await it.client.send(
      new SendMessageCommand({
        QueueUrl: `${endpoint}/000000000000/${queue}`,
        MessageBody,
        MessageAttributes: { lastcall: attribute },
      }),
    );
  }

  it("is read from messages that version 0.1 sent", async () => {
    await using it = await openForTest();
    const { mailbox, name } = it;
    const traced = `{"lastcall:trace":{"traceparent":"${traceparent}"},"body":{"n":1}}`;
    await sendOld(it, name, { id: "a", replyTo: "replies 🍵" }, traced);
    await sendOld(it, name, { id: "b", replyTo: "replies" }, '{"n":2}');
    await sendOld(it, name, { id: "c" }, traced);
    await sendOld(it, name, { id: "d" }, '{"n":4}');
    const messages = await mailbox.receive({ maxMessages: 10 });
    const read = messages.map(({ id, body, headers, replyTo }) => [id, body, headers, replyTo]);
    assertEquals(read.toSorted(), [
      ["a", { n: 1 }, { traceparent }, "replies 🍵"],
      ["b", { n: 2 }, {}, "replies"],
      ["c", { n: 1 }, { traceparent }, undefined],
      ["d", { n: 4 }, {}, undefined],
    ]);
  });

  it("is read from dead letters that version 0.1 sent", async () => {
    await using it = await openForTest();
    const letter = { id: "a", body: 1, reason: "test", deliveryCount: 1, enqueuedAt: 0, deadAt: 0 };
    const fields = { ...letter, replyTo: "replies", trace: { traceparent } };
    await sendOld(it, `${it.name}-dead`, { id: "a", replyTo: "replies" }, JSON.stringify(fields));
    assertEquals(await redrive(it.mailbox), 1);
    const [message] = await it.mailbox.receive();
    assertEquals([message?.id, message?.body, message?.replyTo], ["a", 1, "replies"]);
    assertEquals(message?.headers, { traceparent });
  });

  it("returns all characters of headers, also through the dead letters", async () => {
    const real = clientFor();
    const sent: string[] = [];
    const client = {
      send(command: { readonly input: object }, options?: object): Promise<unknown> {
        sent.push(...textsIn(command.input));
        return real.send(command as never, options as never);
      },
    };
    await using it = await openForTest({ client });
    const text = "\u0001\u001F\u007F\uFFFE\uFFFF\uFEFF🍵 漢 'é\"\\\n\r\t";
    const headers = { [text]: text, empty: "" };
    await it.mailbox.send("work", { headers, replyTo: text });
    const [message] = await it.mailbox.receive();
    assertEquals([message!.headers, message!.replyTo], [headers, text]);
    await message!.deadLetter({ reason: "test" });
    const [letter] = await it.mailbox.deadLetters.receive();
    assertEquals([letter!.headers, letter!.replyTo, letter!.body.headers], [
      headers,
      text,
      headers,
    ]);
    const refused = sent.filter((it) => !/^[\t\n\r -\uD7FF\uE000-\uFFFD]*$/.test(it));
    assertEquals(refused, [], "SQS accepts all characters of what was sent");
    real.destroy();
  });

  it("is refused when the dead letter of its message would be too large", async () => {
    await using it = await openForTest();
    const { mailbox } = it;
    const headers = { large: "x".repeat(500_000) };
    const send = () => mailbox.send("x".repeat(100_000), { headers });
    await assertRejects(send, InvalidParameterError, "a dead letter of this message would have");
    assertEquals(await mailbox.approximateCount(), 0);
    await mailbox.send("work", { headers });
    const [message] = await mailbox.receive();
    await message!.deadLetter({ reason: "test" });
    assertEquals(await redrive(mailbox), 1);
    assertEquals((await mailbox.receive())[0]?.headers, headers);
  });
});
