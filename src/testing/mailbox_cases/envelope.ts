import { assertEquals } from "@std/assert";
import { redrive } from "../../loops/redrive.ts";
import type { MessageHeaders } from "../../mailbox/envelope.ts";
import { invalid, type MailboxCase, refused, topic } from "./mailbox_case.ts";

/** Names and values that a storage format could confuse with its own. */
const HEADERS: MessageHeaders = {
  tenant: "acme",
  traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  tracestate: 'shop={"a":1},"body":,other=}}',
  'Ünïcode ": {': "日本 \n\t\"'\\",
  control: "\u0001\u001f\u007f\ufffe\uffff\u{1F375}",
  empty: "",
  replyTo: "not the reply address",
};

const holds = topic("headers", { needs: ["headers"] });

/** Headers reach every delivery, the dead letter and the redriven message unchanged. */
export const headers: readonly MailboxCase[] = [
  holds("a message has the headers that it was sent with", async (setup) => {
    await setup.mailbox.send({ n: 1 }, { headers: HEADERS });
    const message = await setup.receiveOne();
    assertEquals([message.body, message.headers], [{ n: 1 }, HEADERS]);
    await message.acknowledge();
    await setup.mailbox.sendMany(["a", "b"], { headers: { part: "yes" } });
    for (const { body, headers } of await setup.mailbox.receive({ maxMessages: 2 })) {
      assertEquals([typeof body, headers], ["string", { part: "yes" }]);
    }
  }),

  holds("a message that was sent without headers has none", async (setup) => {
    await setup.mailbox.send({ n: 1 });
    const { body, headers } = await setup.receiveOne();
    assertEquals([body, headers], [{ n: 1 }, {}]);
  }),

  holds("any body is received unchanged beside headers", async (setup) => {
    for (const body of [null, false, 0, "", [], {}, "ü {}", [[null]]]) {
      await setup.mailbox.send(body, { headers: HEADERS });
      const message = await setup.receiveOne();
      assertEquals([message.body, message.headers], [body, HEADERS]);
      await message.acknowledge();
    }
  }),

  holds(
    "a body that looks like one of version 0.1 with a trace is received unchanged",
    async (setup) => {
      const once = { "lastcall:trace": { traceparent: HEADERS.traceparent }, body: "mine" };
      for (const body of [once, { "lastcall:trace": {}, body: once }, { "lastcall:trace": 1 }]) {
        for (const headers of [{}, HEADERS]) {
          await setup.mailbox.send(body, { headers });
          const message = await setup.receiveOne();
          assertEquals([message.body, message.headers], [body, headers]);
          await message.acknowledge();
        }
      }
    },
  ),

  holds("a message keeps its headers when it is nacked and released", async (setup) => {
    await setup.mailbox.send("work", { headers: HEADERS });
    const first = await setup.receiveOne();
    await first.saveCheckpoint({ step: 1 });
    await first.nack();
    await (await setup.receiveOne()).release();
    const { body, headers, checkpoint } = await setup.receiveOne();
    assertEquals([body, headers, checkpoint], ["work", HEADERS, { step: 1 }]);
  }),

  holds("invalid headers are refused, and nothing is stored", async ({ mailbox }) => {
    const bad = [null, [], "text", { a: 1 }, { a: undefined }, { "": "x" }, { a: "\0" }];
    for (const headers of bad as MessageHeaders[]) {
      await invalid(() => mailbox.send("work", { headers }));
      await invalid(() => mailbox.sendMany(["a", "b"], { headers }));
    }
    assertEquals(await mailbox.approximateCount(), 0);
  }),

  topic("headers", { needs: ["headers", "peek"] })(
    "peek returns the headers",
    async ({ mailbox }) => {
      await mailbox.send({ n: 1 }, { headers: HEADERS });
      const peeked = await mailbox.peek(1);
      assertEquals(peeked.map(({ body, headers }) => [body, headers]), [[{ n: 1 }, HEADERS]]);
    },
  ),

  topic("headers", { needs: ["headers", "maxBodyBytes"] })(
    "headers that make a message too large are refused",
    async (setup) => {
      const largest = "x".repeat(setup.maxBodyBytes - 2); // and two quotes
      const send = () => setup.mailbox.send(largest, { headers: { tenant: "acme" } });
      await refused("InvalidParameterError", send);
      await setup.mailbox.send(largest);
      assertEquals((await setup.receiveOne()).body, largest);
    },
  ),

  topic("headers", { needs: ["headers", "deadLetters"] })(
    "a dead letter has the envelope of its message, and a redrive sends all of it again",
    async (setup) => {
      const { mailbox } = setup;
      await mailbox.send({ n: 1 }, { headers: HEADERS, replyTo: "replies" });
      const sent = await setup.receiveOne();
      assertEquals(sent.replyTo, "replies");
      await sent.deadLetter({ reason: "test" });
      const letter = await setup.receiveOne({}, mailbox.deadLetters);
      const { body, headers, replyTo } = letter.body;
      assertEquals([body, headers, replyTo], [{ n: 1 }, HEADERS, "replies"]);
      assertEquals([letter.headers, letter.replyTo], [HEADERS, "replies"]);
      await letter.release();
      assertEquals(await redrive(mailbox), 1);
      const again = await setup.receiveOne();
      assertEquals([again.body, again.headers, again.replyTo], [{ n: 1 }, HEADERS, "replies"]);
    },
  ),
];

const replied = topic("replies");

/** A reply goes to the reply mailbox of its message. */
export const replies: readonly MailboxCase[] = [
  replied("a reply goes to the mailbox that the sender passed", async (setup) => {
    await setup.mailbox.send("ping", { replyTo: setup.replies });
    const message = await setup.receiveOne();
    assertEquals(message.replyTo, "replies");
    await message.reply({ answer: "pong" });
    await message.reply("and more");
    assertEquals(setup.replies.bodies, [{ answer: "pong" }, "and more"]);
    await message.acknowledge();
  }),

  replied("a reply goes to the mailbox that the sender named", async (setup) => {
    await setup.mailbox.sendMany(["ping", "ping"], { replyTo: "replies" });
    for (const message of await setup.mailbox.receive({ maxMessages: 2 })) {
      assertEquals(message.replyTo, "replies");
      await message.checkReply();
      await message.reply("pong");
    }
    assertEquals(setup.replies.bodies, ["pong", "pong"]);
  }),

  replied("a message keeps its reply address when it is delivered again", async (setup) => {
    await setup.mailbox.send("ping", { replyTo: "replies" });
    await (await setup.receiveOne()).nack();
    await (await setup.receiveOne()).reply("pong");
    assertEquals(setup.replies.bodies, ["pong"]);
  }),

  replied("a reply to a message without a reply address is refused", async (setup) => {
    await setup.mailbox.send("ping");
    const message = await setup.receiveOne();
    await refused("ReplyNotAvailableError", () => message.checkReply());
    await refused("ReplyNotAvailableError", () => message.reply("pong"));
    await message.acknowledge();
  }),

  replied("a reply to an unknown reply address is refused", async (setup) => {
    await setup.mailbox.send("ping", { replyTo: "nowhere" });
    const message = await setup.receiveOne();
    assertEquals(message.replyTo, "nowhere");
    await refused("ReplyNotAvailableError", () => message.checkReply());
    await refused("ReplyNotAvailableError", () => message.reply("pong"));
    await message.acknowledge();
  }),

  replied("a failed reply does not settle the message", async (setup) => {
    await setup.replies.close();
    await setup.mailbox.send("ping", { replyTo: "replies" });
    const message = await setup.receiveOne();
    await refused("MailboxClosedError", () => message.checkReply());
    await refused("MailboxClosedError", () => message.reply("pong"));
    assertEquals(message.finalized, false);
    await message.acknowledge();
  }),
];
