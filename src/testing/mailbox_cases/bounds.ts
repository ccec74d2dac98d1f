import { assertEquals } from "@std/assert";
import { invalid, type MailboxCase, refused, topic } from "./mailbox_case.ts";

const MAX_MS = 43_200_000;
/** The longest delay is ten years, where the engine has long delays. */
const INVALID_DELAYS = [-1, -0.001, NaN, 315_360_000_001, Infinity, "1000" as unknown as number];
const INVALID_DURATIONS = [...INVALID_DELAYS, MAX_MS + 1];
const INVALID_COUNTS = [0, -1, 1.5, NaN, Infinity, 1_001, "1" as unknown as number];
const cyclic: { self?: unknown } = {};
cyclic.self = cyclic;
const NOT_JSON = [undefined, () => {}, Symbol("no"), 10n, cyclic];

const holds = topic("bounds");
const written = topic("bounds", { needs: ["maxBodyBytes"] });

/** Invalid input is refused and changes nothing. */
export const bounds: readonly MailboxCase[] = [
  holds("an invalid maxMessages is refused, and nothing is received", async (setup) => {
    await setup.mailbox.send("work");
    for (const maxMessages of INVALID_COUNTS) {
      await invalid(() => setup.mailbox.receive({ maxMessages }));
    }
    assertEquals((await setup.receiveOne()).deliveryCount, 1);
  }),

  holds(
    "an invalid visibility timeout or wait time is refused, and nothing is received",
    async (setup) => {
      const { mailbox } = setup;
      await mailbox.send("work");
      for (const visibilityTimeoutMs of INVALID_DURATIONS) {
        await invalid(() => mailbox.receive({ visibilityTimeoutMs }));
      }
      for (const waitTimeMs of [-1, NaN]) {
        await invalid(() => mailbox.receive({ waitTimeMs }));
      }
      assertEquals((await setup.receiveOne()).deliveryCount, 1);
    },
  ),

  topic("bounds", { requires: ["perReceiveVisibility"] })(
    "a visibility timeout of twelve hours is accepted",
    async (setup) => {
      await setup.mailbox.send("work");
      const message = await setup.receiveOne({ visibilityTimeoutMs: MAX_MS });
      await message.extendVisibility(MAX_MS);
      await message.nack({ delayMs: MAX_MS });
      await setup.assertNoneVisible();
    },
  ),

  topic("bounds", { requires: ["delay"] })(
    "an invalid delay is refused, and nothing is stored",
    async ({ mailbox }) => {
      for (const delayMs of INVALID_DELAYS) {
        await invalid(() => mailbox.send("work", { delayMs }));
        await invalid(() => mailbox.sendMany(["a", "b"], { delayMs }));
      }
      assertEquals(await mailbox.approximateCount(), 0);
      await mailbox.send("work", { delayMs: MAX_MS });
      assertEquals(await mailbox.approximateCount(), 1);
    },
  ),

  holds("an invalid extension or nack is refused, and the delivery stays open", async (setup) => {
    await setup.mailbox.send("work");
    const message = await setup.receiveOne();
    for (const ms of INVALID_DURATIONS) {
      await invalid(() => message.extendVisibility(ms));
    }
    for (const delayMs of INVALID_DELAYS) await invalid(() => message.nack({ delayMs }));
    assertEquals(message.finalized, false);
    await setup.assertNoneVisible();
    await message.acknowledge();
  }),

  topic("bounds", { needs: ["extendMany"] })(
    "extendMany refuses an invalid duration",
    async (setup) => {
      await setup.mailbox.send("work");
      const message = await setup.receiveOne();
      for (const ms of INVALID_DURATIONS) {
        await invalid(() => setup.mailbox.extendMany([message], ms));
      }
      await message.acknowledge();
    },
  ),

  topic("bounds", { needs: ["peek"] })("peek refuses an invalid number", async ({ mailbox }) => {
    for (const count of INVALID_COUNTS) {
      await invalid(() => mailbox.peek(count));
    }
    for (const skip of [-1, 1.5, NaN, Infinity, "1" as unknown as number]) {
      await invalid(() => mailbox.peek(1, { skip }));
    }
  }),

  holds("sendMany accepts an empty list", async ({ mailbox }) => {
    assertEquals(await mailbox.sendMany([]), []);
    assertEquals(await mailbox.approximateCount(), 0);
  }),

  holds("sendMany refuses an id", async ({ mailbox }) => {
    const options = { id: "one" } as object;
    await invalid(() => mailbox.sendMany([1, 2], options));
    assertEquals(await mailbox.approximateCount(), 0);
  }),

  holds("an id or a reply address that some engine cannot store is refused", async (setup) => {
    const { mailbox } = setup;
    for (const id of [7, null, {}, "a\0b", "a\ud800b"] as string[]) {
      await invalid(() => mailbox.send("work", { id }));
    }
    for (const replyTo of [7, {}, "a\0b", "a\udc00b"] as string[]) {
      await invalid(() => mailbox.send("work", { replyTo }));
    }
    assertEquals(await mailbox.approximateCount(), 0);
    await mailbox.send("work", { id: "\u{1F375}" });
    assertEquals((await setup.receiveOne()).id, "\u{1F375}", "any other text can be an id");
  }),

  written(
    "a body that is not JSON is refused, and its whole batch with it",
    async ({ mailbox }) => {
      for (const body of NOT_JSON) {
        await refused("SerializationError", () => mailbox.send(body));
        await refused("SerializationError", () => mailbox.sendMany(["good", body, "good too"]));
      }
      assertEquals(await mailbox.approximateCount(), 0);
    },
  ),

  written("a body that is too large is refused, and its whole batch with it", async (setup) => {
    const { mailbox, maxBodyBytes } = setup;
    const largest = "x".repeat(maxBodyBytes - 2); // with two quotes
    const wide = "漢".repeat(Math.ceil(maxBodyBytes / 3)); // few characters, too many bytes
    for (const body of [`${largest}x`, wide]) {
      await refused("InvalidParameterError", () => mailbox.send(body));
      await refused("InvalidParameterError", () => mailbox.sendMany(["good", body]));
    }
    assertEquals(await mailbox.approximateCount(), 0);
    await mailbox.send(largest);
    assertEquals((await setup.receiveOne()).body, largest);
  }),

  written(
    "a checkpoint that is not JSON is refused, and the delivery stays open",
    async (setup) => {
      await setup.mailbox.send("work");
      const message = await setup.receiveOne();
      for (const checkpoint of NOT_JSON) {
        await refused("SerializationError", () => message.saveCheckpoint(checkpoint));
      }
      await message.nack();
      assertEquals((await setup.receiveOne()).checkpoint, undefined);
    },
  ),
];
