import { describe, it } from "node:test";
import { assertEquals, assertRejects } from "@std/assert";
import { identityCodec } from "../../src/mailbox/codec.ts";
import { EngineMailbox } from "../../src/mailbox/engine_mailbox.ts";
import { InvalidParameterError } from "../../src/mailbox/errors.ts";
import { MemoryEngine } from "../../src/mailbox/memory_engine.ts";
import { skippedMailboxCases, VirtualClock } from "../../src/testing/mod.ts";
import { hostMailboxCases, onSharedEngine } from "./_hosts.ts";
import { RemoteEngine } from "./_remote_engine.ts";

describe("EngineMailbox with JSON bodies and shared storage", () => {
  const make = onSharedEngine((engine) => engine);
  hostMailboxCases(make);
  it("an EngineMailbox with JSON bodies and shared storage skips no case", async () =>
    assertEquals(await skippedMailboxCases(make), []));
});

describe("EngineMailbox on an engine that answers later", () => {
  hostMailboxCases(onSharedEngine((engine) => new RemoteEngine(engine)));
});

describe("EngineMailbox", () => {
  it("refuses deliverNow on an engine that has lookup and lacks the member", async () => {
    const engine = new MemoryEngine<unknown>("orders", Infinity, new VirtualClock());
    Object.defineProperty(engine, "deliverNow", { value: undefined });
    const mailbox = new EngineMailbox<string, unknown, unknown>("orders", engine, identityCodec);
    await mailbox.send("tea", { id: "order-7", delayMs: 1_000 });
    await assertRejects(
      () => mailbox.deliverNow("order-7"),
      InvalidParameterError,
      'Cannot use deliverNow on mailbox "orders": memory has the capability `lookup`, but not the ' +
        "member `deliverNow`. Add the member to the engine",
    );
    assertEquals((await mailbox.get("order-7"))?.state, "delayed");
  });

  it("listens to its engine only while a receive waits", async () => {
    const clock = new VirtualClock();
    const engine = new MemoryEngine<unknown>("orders", Infinity, clock);
    let listening = 0;
    const { onWake } = engine;
    engine.onWake = (listener) => {
      listening++;
      const stop = onWake.call(engine, listener);
      return () => {
        listening--;
        stop();
      };
    };
    const mailbox = new EngineMailbox<string, unknown, unknown>("orders", engine, identityCodec, {
      clock,
    });
    assertEquals(await mailbox.receive(), []);
    for (let round = 0; round < 3; round++) {
      assertEquals(listening, 0);
      const waits = [1_000, 2_000].map((waitTimeMs) => mailbox.receive({ waitTimeMs }));
      await clock.settle();
      assertEquals(listening, 1, "once for all waiting receives");
      await clock.advance(2_000);
      assertEquals(await Promise.all(waits), [[], []]);
    }
    assertEquals(listening, 0);
  });
});
