import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { deferred } from "../../src/_promises.ts";
import { OwnerWatch } from "../../src/engines/_kit/owners.ts";
import { silentLog } from "../../src/log.ts";
import { VirtualClock } from "../../src/testing/virtual_clock.ts";

/** An engine that tells which owners it cannot see. */
class Registry {
  absentOwners: string[] = [];
  looks = 0;
  away = false;
  messages = 3;
  /** Resolves when the engine may answer. */
  answering: Promise<void> | undefined;
  readonly expired: string[] = [];

  async absent(): Promise<string[]> {
    this.looks++;
    await this.answering;
    if (this.away) throw new Error("connection lost");
    return this.absentOwners;
  }

  expire(owner: string): Promise<number> {
    this.expired.push(owner);
    this.absentOwners = this.absentOwners.filter((it) => it !== owner);
    return Promise.resolve(this.messages);
  }
}

function setUp(graceMs = 2_000) {
  const clock = new VirtualClock();
  const registry = new Registry();
  const warnings: unknown[] = [];
  const log = { ...silentLog, warn: (_: string, fields?: object) => void warnings.push(fields) };
  const watch = new OwnerWatch(registry, { queue: "orders", clock, log, graceMs });
  /** Looks as a receive does, and then time passes. */
  const receive = async (ms: number) => {
    watch.look();
    await clock.advance(ms);
  };
  return { clock, registry, watch, warnings, receive };
}

describe("OwnerWatch", () => {
  it("expires the leases of an owner that is absent for the whole grace", async () => {
    const { registry, receive } = setUp();
    registry.absentOwners = ["dead"];
    await receive(1_999);
    assertEquals(registry.expired, []);
    await receive(1_001);
    assertEquals(registry.expired, ["dead"]);
  });

  it("does not judge an owner that reconnects within the grace", async () => {
    const { registry, receive } = setUp();
    for (let reconnect = 0; reconnect < 5; reconnect++) {
      registry.absentOwners = ["alive"];
      await receive(1_500);
      registry.absentOwners = [];
      await receive(1_500);
    }
    assertEquals(registry.expired, []);
  });

  it("counts an absence from the answer on that told it, however slow the answer was", async () => {
    const { clock, registry, watch, receive } = setUp();
    const { promise, resolve } = deferred();
    registry.answering = promise;
    watch.look();
    await clock.advance(900);
    registry.absentOwners = ["reconnecting"]; // since now
    resolve();
    registry.answering = undefined;
    await clock.advance(100);
    for (let second = 1; second < 3; second++) await receive(900);
    assertEquals(registry.expired, []);
    for (let second = 3; second < 6; second++) await receive(1_000);
    assertEquals(registry.expired, ["reconnecting"]);
  });

  it("continues to look by itself while an owner is absent, and then rests", async () => {
    const { clock, registry, receive } = setUp();
    registry.absentOwners = ["dead"];
    await receive(10_000);
    assertEquals(registry.expired, ["dead"]);
    assertEquals([registry.looks, clock.pending], [3, 0]);
  });

  it("looks at most once a second, however many receives there are", async () => {
    const { registry, receive } = setUp();
    for (let i = 0; i < 100; i++) await receive(50);
    assertEquals(registry.looks, 5);
  });

  it("begins the grace again after this process was suspended", async () => {
    const { clock, registry, watch } = setUp();
    registry.absentOwners = ["reconnecting"];
    watch.look();
    await clock.advance(0);
    await clock.suspend(60_000);
    await clock.advance(1_000);
    assertEquals(registry.expired, [], "two looks that are a minute apart prove nothing");
  });

  it("begins the grace again after the engine was frozen", async () => {
    const { registry, receive } = setUp();
    registry.absentOwners = ["reconnecting"];
    await receive(900);
    const { promise, resolve } = deferred();
    registry.answering = promise;
    await receive(1_600);
    resolve();
    registry.answering = undefined;
    await receive(0); // the look ends
    await receive(1_500);
    assertEquals(registry.expired, [], "two answers that are 2.5 s apart prove nothing");
    await receive(1_500);
    assertEquals(registry.expired, ["reconnecting"]);
  });

  it("begins the grace again after the engine was away", async () => {
    const { registry, receive } = setUp();
    registry.absentOwners = ["reconnecting"];
    await receive(1_500);
    registry.away = true;
    await receive(1_000);
    registry.away = false;
    await receive(1_500);
    assertEquals(registry.expired, []);
  });

  it("expires at once where an absent owner is dead for sure", async () => {
    const { registry, receive } = setUp(0);
    registry.absentOwners = ["dead", "also dead"];
    await receive(0);
    assertEquals(registry.expired, ["dead", "also dead"]);
  });

  it("warns about the messages of a dead owner, and of no owner without messages", async () => {
    const { registry, receive, warnings } = setUp(0);
    registry.absentOwners = ["dead"];
    await receive(1_000);
    assertEquals(warnings, [{ mailbox: "orders", owner: "dead", messages: 3 }]);
    registry.absentOwners = ["idle"];
    registry.messages = 0;
    await receive(1_000);
    assertEquals([registry.expired, warnings.length], [["dead", "idle"], 1]);
  });

  it("neither repeats a look that takes long nor lets receives spin", async () => {
    const { registry, receive, watch } = setUp();
    const answered = deferred();
    registry.answering = answered.promise;
    for (let i = 0; i < 3; i++) await receive(1_000);
    assertEquals([registry.looks, watch.nextLookMs], [1, 1_000]);
    answered.resolve();
    await receive(1_000);
    await receive(0);
    assertEquals(registry.looks, 2);
  });

  it("ends its timer when it is stopped", async () => {
    const { clock, registry, receive, watch } = setUp();
    registry.absentOwners = ["dead"];
    await receive(500);
    await watch.stop();
    await receive(10_000);
    assertEquals([registry.expired, clock.pending], [[], 0]);
  });
});
