import { describe, it } from "node:test";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { detectRuntime } from "../../runtime_adapters/detect.ts";
import { silentLog } from "../../src/log.ts";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { Bench } from "./_group.ts";

describe("a group with recycle", () => {
  it("ends gracefully when the run has lasted long enough", async () => {
    const bench = new Bench();
    const group = bench.group([bench.idle("orders")], { recycle: { afterMs: 60_000 } });
    const report = await bench.clock.until(group.run());
    assertEquals([report.outcome, report.exitCode, report.runMs], ["drained", 0, 60_000]);
    assertEquals(report.reason.kind, "recycle");
    assertEquals(report.reason.text, "recycling: the run has lasted 60000 ms");
    assertEquals(bench.clock.pending, 0);
  });

  it("ends gracefully after enough messages, and finishes those in flight", async () => {
    const bench = new Bench();
    const { clock } = bench;
    const mailbox = new InMemoryMailbox<number>("jobs", { clock, log: silentLog });
    await mailbox.sendMany(Array.from({ length: 100 }, (_, i) => i));
    const loop = new MailboxLoop({
      mailbox,
      clock,
      log: silentLog,
      concurrency: 2,
      handler: async () => await clock.sleep(700),
    });
    const group = bench.group([loop], { recycle: { afterMessages: 10 } });
    const { reason, counts, balanced } = await clock.until(group.run());
    assertEquals(reason.text, "recycling: 10 messages were settled");
    assertEquals([counts.acknowledged, counts.leftToExpire, balanced], [12, 0, true]);
  });

  it("ends gracefully when the process uses too much memory", async () => {
    const bench = new Bench();
    bench.runtime.memory = 400e6;
    const group = bench.group([bench.idle("orders")], { recycle: { overMemoryMb: 512 } });
    const run = group.run();
    await bench.clock.advance(10_000);
    bench.runtime.memory = 600e6;
    const report = await bench.clock.until(run);
    assertEquals(report.reason.text, "recycling: the process uses 600 MB");
    assertEquals(report.runMs, 11_000);
  });

  it("can run again, and counts from the start", async () => {
    const bench = new Bench();
    const group = bench.group([bench.idle("orders")], { recycle: { afterMs: 5_000 } });
    for (let i = 0; i < 2; i++) {
      assertEquals((await bench.clock.until(group.run())).runMs, 5_000);
    }
  });

  it("stops no later than asked: a stop removes its timer", async () => {
    const bench = new Bench();
    const group = bench.group([bench.idle("orders")], {
      recycle: { afterMs: 1e9, afterMessages: 1 },
    });
    const run = group.run();
    await bench.clock.advance(100);
    await bench.clock.until(group.shutdown());
    assertEquals((await run).reason.kind, "shutdown");
    assertEquals(bench.clock.pending, 0);
  });

  it("refuses invalid options", () => {
    const bench = new Bench();
    const recycles = [{ afterMessages: 0 }, { afterMs: 0 }, { overMemoryMb: -1 }, {
      afterMs: Infinity,
    }];
    for (const recycle of recycles) {
      assertThrows(() => bench.group([], { recycle }), RangeError, "recycle.");
    }
    assertThrows(() => bench.group([], { recycle: 5 as never }), TypeError, "recycle");
  });
});

it("the runtime tells the resident memory of the process", () => {
  const bytes = detectRuntime().memoryBytes!();
  assert(bytes > 1e6 && bytes < 1e11, `${bytes} bytes`);
});
