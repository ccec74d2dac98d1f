import { assert, assertEquals } from "@std/assert";
import type { BodyCodec } from "../../mailbox/codec.ts";
import { type MailboxCase, refused, topic } from "./mailbox_case.ts";

const flip = (text: string) => [...text].reverse().join("");

/** Stores the JSON of a body in reverse. */
const reversed: BodyCodec = {
  encode: (body) => flip(JSON.stringify(body)),
  decode: (text) => JSON.parse(flip(text)),
};

/** The same, with promises. It cannot read or write the body `"broken"`. */
const asynchronous: BodyCodec = {
  async encode(body) {
    await Promise.resolve();
    if (body === "broken") throw new Error("cannot encode");
    return await reversed.encode(body);
  },
  async decode(text) {
    await Promise.resolve();
    return reversed.decode(text);
  },
};

const BODY = { item: 'tea "ü" \u{1F375}', n: [1, 2, 3] };

/** A mailbox encodes bodies, checkpoints and dead letters with the codec of the user. */
export const codecs: readonly MailboxCase[] = [
  ...[reversed, asynchronous].map((codec, i) =>
    topic("codecs", {}, { codec })(
      `bodies and checkpoints travel through ${i === 0 ? "a codec" : "a codec with promises"}`,
      async (setup) => {
        const { mailbox } = setup;
        await mailbox.send(BODY, { headers: { tenant: "acme" }, checkpoint: { step: 1 } });
        const message = await setup.receiveOne();
        assertEquals([message.body, message.checkpoint], [BODY, { step: 1 }]);
        assertEquals(message.headers, { tenant: "acme" });
        await message.saveCheckpoint({ step: 2 });
        assertEquals(message.checkpoint, { step: 2 });
        await message.release();
        const again = await setup.receiveOne();
        assertEquals([again.body, again.checkpoint], [BODY, { step: 2 }]);
        await again.acknowledge();
      },
    )
  ),

  topic("codecs", { needs: ["deadLetters"] }, { codec: asynchronous })(
    "dead letters travel through the codec",
    async (setup) => {
      await setup.mailbox.send(BODY);
      await (await setup.receiveOne()).deadLetter({ reason: "test" });
      const letter = await setup.receiveOne({}, setup.mailbox.deadLetters);
      assertEquals([letter.body.body, letter.body.reason], [BODY, "test"]);
    },
  ),

  topic("codecs", { needs: ["peek"] }, { codec: asynchronous })(
    "peek decodes with the codec",
    async (setup) => {
      await setup.mailbox.send(BODY);
      assertEquals((await setup.mailbox.peek(1))[0]?.body, BODY);
    },
  ),

  topic("codecs", { needs: ["sendRaw", "deadLetters"] }, { codec: asynchronous })(
    "a body that the codec cannot decode becomes a dead letter",
    async (setup) => {
      await setup.sendRaw('{"item":"tea"}');
      await setup.mailbox.send(BODY);
      assertEquals((await setup.receiveOne({ waitTimeMs: setup.ms(10) })).body, BODY);
      await setup.assertNoneVisible(); // the senders differ, so the order may, too
      const letter = await setup.receiveOne({}, setup.mailbox.deadLetters);
      assertEquals([letter.body.reason, letter.body.raw], ["unreadable", '{"item":"tea"}']);
    },
  ),

  topic("codecs", {}, { codec: asynchronous })(
    "a body that the codec cannot encode is refused, and nothing is stored",
    async ({ mailbox }) => {
      let failure: unknown;
      await mailbox.sendMany(["good", "broken"]).catch((error) => failure = error);
      assert(failure instanceof Error && failure.message.includes("cannot encode"));
      assertEquals(await mailbox.approximateCount(), 0);
    },
  ),

  topic("codecs", {}, { codec: { encode: (body) => body as string, decode: (text) => text } })(
    "a codec that returns no text, or one that some engine cannot store, is refused",
    async ({ mailbox }) => {
      for (const encoded of [7, undefined, null, "a\0b", "\ud800", "b\udc00"]) {
        await refused("SerializationError", () => mailbox.send(encoded));
      }
      assertEquals(await mailbox.approximateCount(), 0);
    },
  ),
];
