import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { deferred } from "../../src/_promises.ts";
import { nextTurn } from "../../src/clock.ts";
import { OwnerWatch } from "../../src/engines/_kit/owners.ts";
import { silentLog } from "../../src/log.ts";
import { VirtualClock } from "../../src/testing/mod.ts";

/** A watch of owners with the names in `absent`, each of which holds `messages`. */
function watchOwners(graceMs = 2_000) {
  const clock = new VirtualClock();
  const site = {
    clock,
    absent: [] as string[],
    messages: 1,
    looks: 0,
    expired: [] as string[],
    warnings: [] as unknown[],
    answer: () => Promise.resolve(),
  };
  const registry = {
    async absent() {
      site.looks++;
      await site.answer();
      return [...site.absent];
    },
    expire(owner: string) {
      site.expired.push(owner);
      return Promise.resolve(site.messages);
    },
  };
  const log = {
    ...silentLog,
    warn: (_: string, fields?: object) => void site.warnings.push(fields),
  };
  const watch = new OwnerWatch(registry, { queue: "orders", clock, log, graceMs });
  return Object.assign(site, {
    watch,
    /** Receives so often, every second. */
    async receive(times: number) {
      for (let i = 0; i < times; i++) {
        watch.look();
        await nextTurn();
        await clock.advance(1_000);
        await nextTurn();
      }
    },
  });
}

describe("OwnerWatch", () => {
  it("an owner that is absent for the whole grace is expired once", async () => {
    const site = watchOwners();
    site.absent = ["a"];
    await site.receive(1);
    assertEquals(site.expired, []);
    await site.receive(1);
    assertEquals(site.expired, ["a"]);
    assertEquals(site.warnings, [{ mailbox: "orders", owner: "a", messages: 1 }]);
    await site.watch.stop();
  });

  it("an owner that comes back in between is not expired", async () => {
    const site = watchOwners();
    for (let i = 0; i < 4; i++) {
      site.absent = ["a"];
      await site.receive(1);
      site.absent = [];
      await site.receive(1);
    }
    assertEquals(site.expired, []);
  });

  it("looks go on without receives while an owner is absent, and end with it", async () => {
    const site = watchOwners();
    site.absent = ["a"];
    await site.receive(1);
    for (let i = 0; i < 3; i++) {
      await site.clock.advance(1_000);
      await nextTurn();
    }
    assertEquals(site.expired, ["a"]);
    site.absent = [];
    const { looks } = site;
    await site.clock.advance(10_000);
    assertEquals(site.looks - looks <= 1, true);
  });

  it("looks that are far apart, and a look that fails, begin the grace again", async () => {
    const site = watchOwners();
    site.absent = ["a"];
    const late = deferred();
    site.watch.look();
    await nextTurn();
    site.answer = () => late.promise;
    await site.clock.advance(5_000); // the second look begins after one second
    site.answer = () => Promise.resolve();
    late.resolve();
    await nextTurn();
    await site.receive(1);
    assertEquals([site.looks, site.expired], [4, []]);
    site.answer = () => Promise.reject(new Error("away"));
    await site.receive(1);
    site.answer = () => Promise.resolve();
    await site.receive(2);
    assertEquals([site.looks, site.expired], [7, []]);
    await site.receive(1);
    assertEquals(site.expired, ["a"]);
    await site.watch.stop();
  });

  it("a look that takes long neither repeats nor lets receives spin", async () => {
    const site = watchOwners();
    const answered = deferred();
    site.answer = () => answered.promise;
    await site.receive(3);
    assertEquals([site.looks, site.watch.nextLookMs], [1, 1_000]);
    answered.resolve();
    await nextTurn();
    await site.receive(1);
    assertEquals(site.looks, 2);
  });

  it("an owner without messages is removed without a warning", async () => {
    const site = watchOwners(0);
    site.absent = ["a"];
    site.messages = 0;
    await site.receive(1);
    assertEquals([site.expired, site.warnings], [["a"], []]);
  });
});
