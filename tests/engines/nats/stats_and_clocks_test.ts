import { describe, it } from "node:test";
import { assert, assertEquals, assertLess } from "@std/assert";
import { type Clock, systemClock } from "../../../src/clock.ts";
import { eventually, hasBinary, missing, nats } from "../_servers.ts";
import { gate, openForTest, startServer, url } from "./_nats.ts";

const MONTH_MS = 30 * 86_400_000;
const privately = { skip: hasBinary(nats) ? false : missing(nats) };

/** A clock that is off by `offsetMs` for time stamps. */
const offBy = (offsetMs: number): Clock => ({
  ...systemClock,
  now: () => systemClock.now() + offsetMs,
});

describe("the stats of a queue on NATS", gate, () => {
  it("they count what was never delivered, and what was delivered and not settled", async () => {
    await using it = await openForTest(url, { clock: offBy(3_600_000) });
    const { mailbox } = it;
    assertEquals(await mailbox.stats(), { waiting: 0, inFlight: 0, dead: 0 });
    await mailbox.sendMany([1, 2, 3, 4]);
    const [first, second] = await mailbox.receive({ maxMessages: 2, waitTimeMs: 10_000 });
    await second!.nack({ delayMs: 60_000 });
    const { oldestWaitingMs, ...counts } = await mailbox.stats();
    assertEquals(counts, { waiting: 2, inFlight: 2, dead: 0 });
    assert(oldestWaitingMs !== undefined);
    assertLess(oldestWaitingMs, 60_000, "by the clock of the server");
    await first!.deadLetter({ reason: "test" });
    await eventually(async () => {
      const { waiting, inFlight, dead } = await mailbox.stats();
      assertEquals([waiting, inFlight, dead], [2, 1, 1]);
    });
  });

  it("a delayed message counts as waiting until a receive has read its delay", async () => {
    await using it = await openForTest();
    await it.mailbox.send("later", { delayMs: 60_000 });
    assertEquals((await it.mailbox.stats()).waiting, 1);
    assertEquals(await it.mailbox.receive(), []);
    const { waiting, inFlight } = await it.mailbox.stats();
    assertEquals([waiting, inFlight], [0, 1]);
  });
});

describe("long delays on NATS", privately, () => {
  it("a message that is due in a month stays hidden after a restart of the server", async () => {
    await using server = await startServer();
    await using it = await openForTest(server.url);
    const { mailbox } = it;
    await mailbox.send("in a month", { delayMs: MONTH_MS });
    await mailbox.send("fails");
    const [failed] = await mailbox.receive({ maxMessages: 10, waitTimeMs: 10_000 });
    assertEquals(failed?.body, "fails");
    await failed!.nack({ delayMs: MONTH_MS });
    await server.kill("SIGTERM");
    await server.start();
    await eventually(() => mailbox.send("now"));
    const [message] = await mailbox.receive({ maxMessages: 10, waitTimeMs: 10_000 });
    assertEquals(message?.body, "now");
    await message!.acknowledge();
    assertEquals(await mailbox.receive({ maxMessages: 10 }), []);
    assertEquals(await mailbox.approximateCount(), 2);
  });
});

describe("expiry on NATS", gate, () => {
  for (const [which, offsetMs] of [["ahead", 3_600_000], ["behind", -3_600_000]] as const) {
    it(`a local clock that is ${which} does not decide which messages have expired`, async () => {
      await using it = await openForTest(url, { clock: offBy(offsetMs) });
      await it.mailbox.send("short", { expiresInMs: 1, onExpired: "drop" });
      await it.mailbox.send("long", { expiresInMs: 600_000 });
      await systemClock.sleep(20); // the engine knows a lower bound of the server's time
      const [message] = await it.mailbox.receive({ waitTimeMs: 10_000 });
      assertEquals(message?.body, "long");
    });
  }
});
