import { describe, it } from "node:test";
import { assertEquals, assertRejects } from "@std/assert";
import { VirtualClock } from "../../src/testing/virtual_clock.ts";

describe("VirtualClock", () => {
  it("runs timers at their due times, also the ones that timers add", async () => {
    const clock = new VirtualClock();
    const seen: [string, number][] = [];
    const note = (name: string) => () => void seen.push([name, clock.monotonic()]);
    clock.schedule(30, note("c"));
    clock.schedule(10, () => {
      note("a")();
      clock.schedule(10, note("b"));
    });
    await clock.advance(100);
    assertEquals(seen, [["a", 10], ["b", 20], ["c", 30]]);
    assertEquals([clock.monotonic(), clock.pending], [100, 0]);
  });

  it("runs promises between two timers", async () => {
    const clock = new VirtualClock();
    const seen: string[] = [];
    clock.sleep(10).then(() => seen.push("first")).then(() => seen.push("then"));
    clock.schedule(10, () => seen.push("second"));
    await clock.advance(10);
    assertEquals(seen, ["first", "then", "second"]);
  });

  it("a cancelled timer never runs and is not pending", async () => {
    const clock = new VirtualClock();
    let ran = false;
    const cancel = clock.schedule(10, () => ran = true);
    cancel();
    cancel();
    assertEquals(clock.pending, 0);
    await clock.advance(100);
    assertEquals(ran, false);
  });

  it("an aborted sleep rejects with the signal's reason and leaves no timer", async () => {
    const clock = new VirtualClock();
    const controller = new AbortController();
    const asleep = clock.sleep(1_000, { signal: controller.signal });
    controller.abort(new Error("wake up"));
    await assertRejects(() => asleep, Error, "wake up");
    await assertRejects(() => clock.sleep(1, { signal: controller.signal }), Error, "wake up");
    assertEquals(clock.pending, 0);
  });

  it("a sleep of 0 ms needs no advance", async () => {
    const clock = new VirtualClock();
    await clock.sleep(0);
    assertEquals([clock.monotonic(), clock.pending], [0, 0]);
  });

  it("until advances time until a promise settles, and throws when it cannot", async () => {
    const clock = new VirtualClock();
    await clock.until(clock.sleep(86_400_000));
    assertEquals(clock.monotonic(), 86_400_000);
    await assertRejects(() => clock.until(new Promise(() => {})), Error, "cannot settle");
    await assertRejects(() => clock.until(clock.sleep(Infinity)), Error, "cannot settle");
  });

  it("stepWallClock does not change durations", () => {
    const clock = new VirtualClock(1_000);
    clock.stepWallClock(-500);
    assertEquals([clock.now(), clock.monotonic()], [500, 0]);
  });
});
