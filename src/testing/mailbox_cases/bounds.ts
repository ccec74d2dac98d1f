import { assertEquals } from "@std/assert";
import { invalid, refused, topic } from "./_bench.ts";
import type { MailboxCase } from "./mailbox_case.ts";

const MAX_MS = 43_200_000;
const NO_DURATIONS = [-1, -0.001, NaN, MAX_MS + 1, Infinity, "1000" as unknown as number];
const NO_COUNTS = [0, -1, 1.5, NaN, Infinity, 1_001, "1" as unknown as number];
const cyclic: { self?: unknown } = {};
cyclic.self = cyclic;
const NO_JSON = [undefined, () => {}, Symbol("no"), 10n, cyclic];

const holds = topic("bounds");
const written = topic("bounds", { needs: ["maxBodyBytes"] });

/** Input that makes no sense is refused, and nothing has happened. */
export const bounds: readonly MailboxCase[] = [
  holds("a number of messages that makes no sense takes nothing", async (bench) => {
    await bench.mailbox.send("work");
    for (const maxMessages of NO_COUNTS) {
      await invalid(() => bench.mailbox.receive({ maxMessages }));
    }
    assertEquals((await bench.take()).deliveryCount, 1);
  }),

  holds("a visibility or a wait that makes no sense takes nothing", async (bench) => {
    const { mailbox } = bench;
    await mailbox.send("work");
    for (const visibilityTimeoutMs of NO_DURATIONS) {
      await invalid(() => mailbox.receive({ visibilityTimeoutMs }));
    }
    for (const waitTimeMs of [-1, NaN]) {
      await invalid(() => mailbox.receive({ waitTimeMs }));
    }
    assertEquals((await bench.take()).deliveryCount, 1);
  }),

  topic("bounds", { requires: ["perReceiveVisibility"] })(
    "the longest visibility is taken",
    async (bench) => {
      await bench.mailbox.send("work");
      const message = await bench.take({ visibilityTimeoutMs: MAX_MS });
      await message.extendVisibility(MAX_MS);
      await message.nack({ delayMs: MAX_MS });
      await bench.hidden();
    },
  ),

  topic("bounds", { requires: ["delay"] })(
    "a delay that makes no sense stores nothing",
    async ({ mailbox }) => {
      for (const delayMs of NO_DURATIONS) {
        await invalid(() => mailbox.send("work", { delayMs }));
        await invalid(() => mailbox.sendMany(["a", "b"], { delayMs }));
      }
      assertEquals(await mailbox.approximateCount(), 0);
      await mailbox.send("work", { delayMs: MAX_MS });
      assertEquals(await mailbox.approximateCount(), 1);
    },
  ),

  holds("a delivery survives its senseless extensions and delays", async (bench) => {
    await bench.mailbox.send("work");
    const message = await bench.take();
    for (const ms of NO_DURATIONS) {
      await invalid(() => message.extendVisibility(ms));
      await invalid(() => message.nack({ delayMs: ms }));
    }
    assertEquals(message.finalized, false);
    await bench.hidden();
    await message.acknowledge();
  }),

  topic("bounds", { needs: ["extendMany"] })(
    "a senseless extension of many is refused",
    async (bench) => {
      await bench.mailbox.send("work");
      const message = await bench.take();
      for (const ms of NO_DURATIONS) {
        await invalid(() => bench.mailbox.extendMany([message], ms));
      }
      await message.acknowledge();
    },
  ),

  topic("bounds", { needs: ["peek"] })("a senseless look is refused", async ({ mailbox }) => {
    for (const count of NO_COUNTS) {
      await invalid(() => mailbox.peek(count));
    }
  }),

  holds("sending none is fine", async ({ mailbox }) => {
    assertEquals(await mailbox.sendMany([]), []);
    assertEquals(await mailbox.approximateCount(), 0);
  }),

  holds("many messages cannot share one id", async ({ mailbox }) => {
    const options = { id: "one" } as object;
    await invalid(() => mailbox.sendMany([1, 2], options));
    assertEquals(await mailbox.approximateCount(), 0);
  }),

  holds("an id that cannot be stored everywhere is refused", async (bench) => {
    const { mailbox } = bench;
    for (const id of [7, null, {}, "a\0b", "a\ud800b"] as string[]) {
      await invalid(() => mailbox.send("work", { id }));
    }
    for (const replyTo of [7, {}, "a\0b", "a\udc00b"] as string[]) {
      await invalid(() => mailbox.send("work", { replyTo }));
    }
    assertEquals(await mailbox.approximateCount(), 0);
    await mailbox.send("work", { id: "\u{1F375}" });
    assertEquals((await bench.take()).id, "\u{1F375}", "any other text is an id");
  }),

  written(
    "a body that cannot be written is refused, and its batch with it",
    async ({ mailbox }) => {
      for (const body of NO_JSON) {
        await refused("SerializationError", () => mailbox.send(body));
        await refused("SerializationError", () => mailbox.sendMany(["good", body, "good too"]));
      }
      assertEquals(await mailbox.approximateCount(), 0);
    },
  ),

  written("a body that is too large is refused, and its batch with it", async (bench) => {
    const { mailbox, maxBodyBytes } = bench;
    const largest = "x".repeat(maxBodyBytes - 2); // and two quotes
    const wide = "漢".repeat(Math.ceil(maxBodyBytes / 3)); // few characters, too many bytes
    for (const body of [`${largest}x`, wide]) {
      await refused("InvalidParameterError", () => mailbox.send(body));
      await refused("InvalidParameterError", () => mailbox.sendMany(["good", body]));
    }
    assertEquals(await mailbox.approximateCount(), 0);
    await mailbox.send(largest);
    assertEquals((await bench.take()).body, largest);
  }),

  written("progress that cannot be written is refused, and the delivery goes on", async (bench) => {
    await bench.mailbox.send("work");
    const message = await bench.take();
    for (const progress of NO_JSON) {
      await refused("SerializationError", () => message.saveCheckpoint(progress));
    }
    await message.nack();
    assertEquals((await bench.take()).checkpoint, undefined);
  }),
];
