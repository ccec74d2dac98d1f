import { assertEquals } from "@std/assert";
import { topic } from "./_bench.ts";
import type { MailboxCase } from "./mailbox_case.ts";

const holds = topic("checkpoints");

/** Progress that one delivery saved is there for the next. */
export const checkpoints: readonly MailboxCase[] = [
  holds("the first delivery has no progress", async (bench) => {
    await bench.mailbox.send("work");
    assertEquals((await bench.take()).checkpoint, undefined);
  }),

  holds("the next delivery gets what was saved last", async (bench) => {
    await bench.mailbox.send("work");
    const first = await bench.take();
    await first.saveCheckpoint({ step: 1 });
    await first.saveCheckpoint({ step: 2, done: ["a", null] });
    assertEquals(first.finalized, false);
    await first.nack();
    const second = await bench.take();
    assertEquals(second.checkpoint, { step: 2, done: ["a", null] });
    assertEquals(second.body, "work");
    await second.release();
    assertEquals((await bench.take()).checkpoint, { step: 2, done: ["a", null] });
  }),

  holds("a message can be sent with a checkpoint", async (bench) => {
    await bench.mailbox.send("work", { checkpoint: { step: 1, note: 'a "quote"\n\u00fc' } });
    const first = await bench.take();
    assertEquals(first.checkpoint, { step: 1, note: 'a "quote"\n\u00fc' });
    assertEquals(first.deliveryCount, 1);
    await first.nack();
    const second = await bench.take();
    assertEquals(second.checkpoint, first.checkpoint, "the next delivery has it too");
    await second.saveCheckpoint(null);
    await second.nack();
    assertEquals((await bench.take()).checkpoint, null, "a checkpoint saved later replaces it");
  }),

  topic("checkpoints", { requires: ["delay"] })(
    "a delayed message can be sent with a checkpoint",
    async (bench) => {
      const { mailbox } = bench;
      await mailbox.send("work", { delayMs: bench.ms(3), checkpoint: ["half"] });
      await bench.pass(3);
      const message = await bench.take();
      assertEquals([message.checkpoint, message.deliveryCount], [["half"], 1]);
    },
  ),

  topic("checkpoints", { requires: ["perReceiveVisibility"] })(
    "progress outlives a lease that ends",
    async (bench) => {
      await bench.mailbox.send("work");
      const first = await bench.take({ visibilityTimeoutMs: bench.ms(3) });
      await first.saveCheckpoint("half");
      await bench.pass(3);
      assertEquals((await bench.take()).checkpoint, "half", "and saving is no extension");
    },
  ),

  topic("checkpoints", { needs: ["sibling"] })("progress is there for others", async (bench) => {
    const sibling = await bench.sibling();
    await bench.mailbox.send("work");
    const first = await bench.take();
    await first.saveCheckpoint(["half"]);
    await first.nack();
    assertEquals((await bench.take({}, sibling)).checkpoint, ["half"]);
  }),

  holds("progress stays with its message", async (bench) => {
    await bench.mailbox.sendMany(["a", "b"]);
    const [a, b] = await bench.mailbox.receive({ maxMessages: 2 });
    await a!.saveCheckpoint(`progress of ${a!.body}`);
    await a!.nack();
    await b!.nack();
    for (const { id, checkpoint } of await bench.mailbox.receive({ maxMessages: 2 })) {
      assertEquals(checkpoint, id === a!.id ? `progress of ${a!.body}` : undefined);
    }
  }),
];
