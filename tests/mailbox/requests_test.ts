import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { silentLog } from "../../src/log.ts";
import { jsonCodec } from "../../src/mailbox/codec.ts";
import { EngineMailbox } from "../../src/mailbox/engine_mailbox.ts";
import { isMailboxError } from "../../src/mailbox/errors.ts";
import { MemoryEngine } from "../../src/mailbox/memory_engine.ts";
import { FaultyEngine, VirtualClock } from "../../src/testing/mod.ts";

const HOUR_MS = 3_600_000;

/** A storage that several processes share. */
class Storage {
  readonly clock = new VirtualClock();
  readonly engine = new MemoryEngine<string>("orders", Infinity, this.clock);

  open(engine = new FaultyEngine(this.engine)): EngineMailbox<string, string, string> {
    return new EngineMailbox("orders", engine, jsonCodec(), { clock: this.clock, log: silentLog });
  }

  /** The reply queues and how many messages they have. */
  replyQueues(): number[] {
    const names = this.engine.queues().filter((name) => name.startsWith("orders.replies."));
    return names.map((name) => this.engine.queue(name).count());
  }
}

describe("the reply mailbox of requests", () => {
  it("is deleted when its mailbox is closed", async () => {
    const storage = new Storage();
    const mailbox = storage.open();
    const reply = mailbox.request("tea");
    const [message] = await mailbox.receive({ waitTimeMs: 1_000 });
    await message!.reply("soon");
    await message!.acknowledge();
    assertEquals(await storage.clock.until(reply), "soon");
    assertEquals(storage.replyQueues(), [0]);
    await mailbox.close();
    assertEquals(storage.replyQueues(), []);
    assertEquals(storage.clock.pending, 0);
  });

  it("is deleted by another process when its own process has crashed", async () => {
    const storage = new Storage();
    const crashed = storage.open();
    const abort = new AbortController();
    const waiting = assertRejects(() => crashed.request("tea", { signal: abort.signal }));
    const other = storage.open();
    const [message] = await other.receive({ waitTimeMs: 1_000 });
    abort.abort(new Error("crash"));
    await waiting;
    await message!.reply("nobody listens");
    await message!.acknowledge();
    assertEquals(storage.replyQueues(), [1]);

    await storage.clock.advance(HOUR_MS / 2);
    const early = storage.open();
    const first = assertRejects(() => early.request("cake", { timeoutMs: 1_000 }));
    await storage.clock.advance(1_000);
    await first;
    assertEquals(storage.replyQueues().toSorted(), [0, 1], "its process may still run");

    const ofUser = storage.engine.queue("orders.replies.archive");
    ofUser.send([{ id: "kept", body: "1", delayMs: 0, dedup: false }]);
    await storage.clock.advance(HOUR_MS + 1);
    const late = storage.open();
    const second = assertRejects(() => late.request("cake", { timeoutMs: 1_000 }));
    await storage.clock.advance(1_000);
    await second;
    assertEquals(ofUser.count(), 1, "a queue of the user is left alone");
    ofUser.drop();
    assertEquals(storage.replyQueues(), [0, 0]);
  });

  it("is received from while a request waits, and no longer", async () => {
    const storage = new Storage();
    const mailbox = storage.open();
    for (let i = 0; i < 3; i++) {
      const reply = mailbox.request("tea");
      const [message] = await mailbox.receive({ waitTimeMs: 1_000 });
      await message!.reply(`${i}`);
      await message!.acknowledge();
      assertEquals(await storage.clock.until(reply), `${i}`);
      await storage.clock.advance(0);
      assertEquals(storage.clock.pending, 0, "nothing waits between requests");
    }
    await mailbox.close();
  });
});

describe("a request", () => {
  it("rejects with the error of its send", async () => {
    const storage = new Storage();
    const engine = new FaultyEngine(storage.engine);
    engine.loseConnection({ operations: ["send"] });
    const mailbox = storage.open(engine);
    const error = await assertRejects(() => mailbox.request("tea"));
    assert(isMailboxError(error, "MailboxConnectionError"));
    await mailbox.close();
    assertEquals(storage.clock.pending, 0);
  });

  it("rejects when a message with its id is stored, because no reply would arrive", async () => {
    const storage = new Storage();
    const mailbox = storage.open();
    await mailbox.send("tea", { id: "order-7" });
    const error = await assertRejects(() => mailbox.request("tea", { id: "order-7" }));
    assert(isMailboxError(error, "InvalidParameterError"));
    await mailbox.close();
  });

  it("refuses an invalid timeout, and sends nothing", async () => {
    const storage = new Storage();
    const mailbox = storage.open();
    for (const timeoutMs of [0, -1, NaN, Infinity]) {
      await assertRejects(() => mailbox.request("tea", { timeoutMs }), RangeError, "timeoutMs");
    }
    assertEquals(await mailbox.approximateCount(), 0);
    await mailbox.close();
  });
});
