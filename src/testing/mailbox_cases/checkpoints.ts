import { assertEquals } from "@std/assert";
import { type MailboxCase, topic } from "./mailbox_case.ts";

const holds = topic("checkpoints");

/** A checkpoint that one delivery saves reaches the next one. */
export const checkpoints: readonly MailboxCase[] = [
  holds("the first delivery has no checkpoint", async (setup) => {
    await setup.mailbox.send("work");
    assertEquals((await setup.receiveOne()).checkpoint, undefined);
  }),

  holds("the next delivery has the last saved checkpoint", async (setup) => {
    await setup.mailbox.send("work");
    const first = await setup.receiveOne();
    await first.saveCheckpoint({ step: 1 });
    await first.saveCheckpoint({ step: 2, done: ["a", null] });
    assertEquals(first.finalized, false);
    await first.nack();
    const second = await setup.receiveOne();
    assertEquals(second.checkpoint, { step: 2, done: ["a", null] });
    assertEquals(second.body, "work");
    await second.release();
    assertEquals((await setup.receiveOne()).checkpoint, { step: 2, done: ["a", null] });
  }),

  holds("a message can be sent with a checkpoint", async (setup) => {
    await setup.mailbox.send("work", { checkpoint: { step: 1, note: 'a "quote"\n\u00fc' } });
    const first = await setup.receiveOne();
    assertEquals(first.checkpoint, { step: 1, note: 'a "quote"\n\u00fc' });
    assertEquals(first.deliveryCount, 1);
    await first.nack();
    const second = await setup.receiveOne();
    assertEquals(second.checkpoint, first.checkpoint, "the next delivery also has it");
    await second.saveCheckpoint(null);
    await second.nack();
    assertEquals(
      (await setup.receiveOne()).checkpoint,
      null,
      "a checkpoint saved later replaces it",
    );
  }),

  topic("checkpoints", { requires: ["delay"] })(
    "a delayed message can be sent with a checkpoint",
    async (setup) => {
      const { mailbox } = setup;
      await mailbox.send("work", { delayMs: setup.ms(3), checkpoint: ["half"] });
      await setup.pass(3);
      const message = await setup.receiveOne();
      assertEquals([message.checkpoint, message.deliveryCount], [["half"], 1]);
    },
  ),

  topic("checkpoints", { requires: ["perReceiveVisibility"] })(
    "a checkpoint stays when the visibility timeout passes, and saving it extends no lease",
    async (setup) => {
      await setup.mailbox.send("work");
      const first = await setup.receiveOne({ visibilityTimeoutMs: setup.ms(3) });
      await first.saveCheckpoint("half");
      await setup.pass(3);
      assertEquals((await setup.receiveOne()).checkpoint, "half");
    },
  ),

  topic("checkpoints", { needs: ["sibling"] })(
    "another connection receives the saved checkpoint",
    async (setup) => {
      const sibling = await setup.sibling();
      await setup.mailbox.send("work");
      const first = await setup.receiveOne();
      await first.saveCheckpoint(["half"]);
      await first.nack();
      assertEquals((await setup.receiveOne({}, sibling)).checkpoint, ["half"]);
    },
  ),

  holds("a checkpoint belongs to one message", async (setup) => {
    await setup.mailbox.sendMany(["a", "b"]);
    const [a, b] = await setup.mailbox.receive({ maxMessages: 2 });
    await a!.saveCheckpoint(`checkpoint of ${a!.body}`);
    await a!.nack();
    await b!.nack();
    for (const { id, checkpoint } of await setup.mailbox.receive({ maxMessages: 2 })) {
      assertEquals(checkpoint, id === a!.id ? `checkpoint of ${a!.body}` : undefined);
    }
  }),

  topic("checkpoints", { requires: ["restoresAttempts"] })(
    "a release spends no attempt while checkpoints are saved",
    async (setup) => {
      await setup.mailbox.send("work");
      for (let page = 1; page <= 8; page++) {
        const message = await setup.receiveOne({ waitTimeMs: setup.ms(10) });
        assertEquals([message.deliveryCount, message.checkpoint], [
          1,
          page === 1 ? undefined : page - 1,
        ]);
        await message.saveCheckpoint(page);
        await message.release();
      }
    },
  ),
];
