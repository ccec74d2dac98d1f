import { assertEquals } from "@std/assert";
import { refused, topic } from "./_bench.ts";
import type { MailboxCase } from "./mailbox_case.ts";

const holds = topic("replies");

/** A reply goes where the sender wants it. */
export const replies: readonly MailboxCase[] = [
  holds("a reply goes to the mailbox the sender gave", async (bench) => {
    await bench.mailbox.send("ping", { replyTo: bench.replies });
    const message = await bench.take();
    assertEquals(message.replyTo, "replies");
    const id = await message.reply({ answer: "pong" });
    await message.reply("and more");
    assertEquals(bench.replies.bodies, [{ answer: "pong" }, "and more"]);
    assertEquals(bench.replies.sent[0]?.id, id);
    await message.acknowledge();
  }),

  holds("a reply goes to the mailbox the sender named", async (bench) => {
    await bench.mailbox.sendMany(["ping", "ping"], { replyTo: "replies" });
    for (const message of await bench.mailbox.receive({ maxMessages: 2 })) {
      assertEquals(message.replyTo, "replies");
      await message.reply("pong");
    }
    assertEquals(bench.replies.bodies, ["pong", "pong"]);
  }),

  holds("the reply address stays with a message that comes again", async (bench) => {
    await bench.mailbox.send("ping", { replyTo: "replies" });
    await (await bench.take()).nack();
    await (await bench.take()).reply("pong");
    assertEquals(bench.replies.bodies, ["pong"]);
  }),

  holds("there is no reply to a message without an address", async (bench) => {
    await bench.mailbox.send("ping");
    const message = await bench.take();
    await refused("ReplyNotAvailableError", () => message.reply("pong"));
    await message.acknowledge();
  }),

  holds("there is no reply to an address that nobody knows", async (bench) => {
    await bench.mailbox.send("ping", { replyTo: "nowhere" });
    const message = await bench.take();
    assertEquals(message.replyTo, "nowhere");
    await refused("ReplyNotAvailableError", () => message.reply("pong"));
    await message.acknowledge();
  }),

  holds("a reply that fails leaves the message to its receiver", async (bench) => {
    await bench.replies.close();
    await bench.mailbox.send("ping", { replyTo: "replies" });
    const message = await bench.take();
    await refused("MailboxClosedError", () => message.reply("pong"));
    assertEquals(message.finalized, false);
    await message.acknowledge();
  }),
];
