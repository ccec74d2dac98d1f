import { assertEquals } from "@std/assert";
import { redrive } from "../../loops/redrive.ts";
import type { MessageHeaders } from "../../mailbox/envelope.ts";
import { invalid, refused, topic } from "./_bench.ts";
import type { MailboxCase } from "./mailbox_case.ts";

/** Names and values that a storage format could confuse with its own. */
const HEADERS: MessageHeaders = {
  tenant: "acme",
  traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  tracestate: 'shop={"a":1},"body":,other=}}',
  'Ünïcode ": {': "日本 \n\t\"'\\",
  empty: "",
  replyTo: "not the reply address",
};

const holds = topic("headers", { needs: ["headers"] });

/** Headers reach every delivery, the dead letter and the redriven message unchanged. */
export const headers: readonly MailboxCase[] = [
  holds("a message has the headers that it was sent with", async (bench) => {
    await bench.mailbox.send({ n: 1 }, { headers: HEADERS });
    const message = await bench.take();
    assertEquals([message.body, message.headers], [{ n: 1 }, HEADERS]);
    await message.acknowledge();
    await bench.mailbox.sendMany(["a", "b"], { headers: { part: "yes" } });
    for (const { body, headers } of await bench.mailbox.receive({ maxMessages: 2 })) {
      assertEquals([typeof body, headers], ["string", { part: "yes" }]);
    }
  }),

  holds("a message that was sent without headers has none", async (bench) => {
    await bench.mailbox.send({ n: 1 });
    const { body, headers } = await bench.take();
    assertEquals([body, headers], [{ n: 1 }, {}]);
  }),

  holds("any body comes back unchanged beside headers", async (bench) => {
    for (const body of [null, false, 0, "", [], {}, "ü {}", [[null]]]) {
      await bench.mailbox.send(body, { headers: HEADERS });
      const message = await bench.take();
      assertEquals([message.body, message.headers], [body, HEADERS]);
      await message.acknowledge();
    }
  }),

  holds(
    "a body that looks like one of version 0.1 with a trace comes back unchanged",
    async (bench) => {
      const once = { "lastcall:trace": { traceparent: HEADERS.traceparent }, body: "mine" };
      for (const body of [once, { "lastcall:trace": {}, body: once }, { "lastcall:trace": 1 }]) {
        for (const headers of [{}, HEADERS]) {
          await bench.mailbox.send(body, { headers });
          const message = await bench.take();
          assertEquals([message.body, message.headers], [body, headers]);
          await message.acknowledge();
        }
      }
    },
  ),

  holds("headers stay with a message that is nacked and released", async (bench) => {
    await bench.mailbox.send("work", { headers: HEADERS });
    const first = await bench.take();
    await first.saveCheckpoint({ step: 1 });
    await first.nack();
    await (await bench.take()).release();
    const { body, headers, checkpoint } = await bench.take();
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
    async (bench) => {
      const largest = "x".repeat(bench.maxBodyBytes - 2); // and two quotes
      const send = () => bench.mailbox.send(largest, { headers: { tenant: "acme" } });
      await refused("InvalidParameterError", send);
      await bench.mailbox.send(largest);
      assertEquals((await bench.take()).body, largest);
    },
  ),

  topic("headers", { needs: ["headers", "deadLetters"] })(
    "a dead letter has the envelope of its message, and a redrive sends all of it again",
    async (bench) => {
      const { mailbox } = bench;
      await mailbox.send({ n: 1 }, { headers: HEADERS, replyTo: "replies" });
      const sent = await bench.take();
      assertEquals(sent.replyTo, "replies");
      await sent.deadLetter({ reason: "test" });
      const letter = await bench.take({}, mailbox.deadLetters);
      const { body, headers, replyTo } = letter.body;
      assertEquals([body, headers, replyTo], [{ n: 1 }, HEADERS, "replies"]);
      assertEquals([letter.headers, letter.replyTo], [HEADERS, "replies"]);
      await letter.release();
      assertEquals(await redrive(mailbox), 1);
      const again = await bench.take();
      assertEquals([again.body, again.headers, again.replyTo], [{ n: 1 }, HEADERS, "replies"]);
    },
  ),
];
