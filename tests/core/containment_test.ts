import { afterEach, describe, it } from "node:test";
import { assertEquals, assertInstanceOf, assertRejects, assertStringIncludes } from "@std/assert";
import { errorText } from "../../src/errors.ts";
import { safeLog } from "../../src/library_log.ts";
import { type Log, silentLog } from "../../src/log.ts";
import { GroupFailedError } from "../../src/lifecycle/drain_report.ts";
import { ShutdownCoordinator } from "../../src/lifecycle/shutdown_coordinator.ts";
import { Watchdog } from "../../src/lifecycle/watchdog.ts";
import { Heartbeat } from "../../src/lifecycle/watchdog.ts";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { FakeRuntime } from "../../src/testing/fake_runtime.ts";
import { Bench } from "./_group.ts";

/** Values that a program can throw although they cannot be shown as text, or only with care. */
function strangeValues(): readonly (readonly [string, unknown])[] {
  const cyclic: Record<string, unknown> = {};
  cyclic["self"] = cyclic;
  const throwing = (): never => {
    throw new Error("no text");
  };
  return [
    ["an object without a prototype", Object.create(null)],
    ["an object whose toString throws", { toString: throwing }],
    ["an object whose toString returns an object", { toString: () => ({}), valueOf: () => ({}) }],
    ["a symbol", Symbol("thrown")],
    ["undefined", undefined],
    ["null", null],
    ["a value with a cycle", cyclic],
    [
      "an error whose getters throw",
      Object.defineProperties(new Error("x"), {
        message: { get: throwing },
        name: { get: throwing },
        stack: { get: throwing },
      }),
    ],
    ["a proxy that refuses everything", new Proxy({}, { get: throwing, getPrototypeOf: throwing })],
  ];
}

const throwNow = (): never => {
  throw new Error("the log is broken");
};

/** Logs that fail in every way. */
const brokenLogs: readonly (readonly [string, Log])[] = [
  ["throws", { debug: throwNow, info: throwNow, warn: throwNow, error: throwNow }],
  [
    "rejects",
    (() => {
      const reject = () => Promise.reject(new Error("the log is broken")) as never;
      return { debug: reject, info: reject, warn: reject, error: reject };
    })(),
  ],
  ["has no methods", {} as Log],
];

/** A log that writes JSON, as many do. */
function jsonLines(lines: string[]): Log {
  const write = (message: string, properties?: Record<string, unknown>) => {
    lines.push(JSON.stringify({ message, ...properties }));
  };
  return { debug: write, info: write, warn: write, error: write };
}

describe("the text of a thrown value", () => {
  for (const [what, value] of strangeValues()) {
    it(`is a string for ${what}`, () => assertEquals(typeof errorText(value), "string"));
  }

  it("is the name and the message of an ordinary error", () => {
    assertEquals(errorText(new TypeError("bad")), "TypeError: bad");
  });
});

describe("a group whose log fails", () => {
  afterEach(() => ShutdownCoordinator.reset());

  for (const [how, log] of brokenLogs) {
    it(`a group stops when a loop fails although the log ${how}`, async () => {
      const bench = new Bench();
      const group = bench.group([bench.failing("failing", 5), bench.idle("idle")], { log });
      const error = await assertRejects(() => bench.clock.until(group.run()), GroupFailedError);
      assertEquals(error.report.exitCode, 1);
    });

    it(`trigger() calls every shutdown callback and resolves although the log ${how}`, async () => {
      const coordinator = ShutdownCoordinator.install({ runtime: new FakeRuntime(), log });
      const calls: string[] = [];
      coordinator.register(() => Promise.reject(new Error("failed")));
      coordinator.register(() => void calls.push("second"));
      await coordinator.trigger();
      assertEquals(calls, ["second"]);
    });

    it(`a loop handles the next message after a failed one although the log ${how}`, async () => {
      const { clock } = new Bench();
      const mailbox = new InMemoryMailbox<number>("numbers", { clock, log });
      await mailbox.sendMany([1, 2]);
      const seen: number[] = [];
      const loop = new MailboxLoop({
        mailbox,
        clock,
        log,
        deadLetter: { maxDeliveries: 1 },
        onDeadLetter: () => Promise.reject(new Error("onDeadLetter failed")),
        handler({ body }) {
          seen.push(body);
          if (body === 1) throw new Error("bad message");
        },
      });
      await clock.until(loop.run({ maxIterations: 2 }));
      assertEquals([seen, loop.counts.deadLettered, loop.counts.acknowledged], [[1, 2], 1, 1]);
    });

    it(`main() ends with the right exit code although the log ${how}`, async () => {
      const bench = new Bench();
      const group = bench.group([bench.failing("failing", 5)], { log });
      await bench.clock.until(group.main().catch(() => {}));
      assertEquals(bench.runtime.exitCodes, [1]);
    });
  }

  it("a record that a JSON log refuses is logged again with its properties as text", () => {
    const lines: string[] = [];
    const log = safeLog(jsonLines(lines));
    const cyclic: Record<string, unknown> = { toString: () => "a cycle" };
    cyclic["self"] = cyclic;
    log.warn("message failed", { error: cyclic, attempt: 3 });
    assertEquals(lines, ['{"message":"message failed","error":"a cycle","attempt":3}']);
  });

  it("a log is wrapped once, however often it is passed on", () => {
    const log = safeLog(jsonLines([]));
    assertEquals(safeLog(log), log);
    assertEquals(safeLog(silentLog), silentLog);
  });
});

describe("a value that cannot be shown as text", () => {
  afterEach(() => ShutdownCoordinator.reset());

  for (const [what, value] of strangeValues()) {
    it(`run() rejects with a GroupFailedError when a loop throws ${what}`, async () => {
      const bench = new Bench();
      const log = jsonLines([]);
      const loop = bench.loop("failing", () => Promise.reject(value));
      const error = await bench.clock.until(bench.group([loop], { log }).run().catch((it) => it));
      assertInstanceOf(error, GroupFailedError);
      assertStringIncludes(error.message, 'Loop "failing"');
      assertEquals(typeof String(error.report), "string");
      assertEquals(typeof JSON.stringify(error.report), "string");
    });

    it(`a handler that throws ${what} has failed an attempt`, async () => {
      const { clock } = new Bench();
      const mailbox = new InMemoryMailbox<number>("numbers", { clock });
      await mailbox.sendMany([1, 2]);
      const loop = new MailboxLoop({
        mailbox,
        clock,
        log: jsonLines([]),
        deadLetter: { maxDeliveries: 1, include: [TypeError], exclude: [RangeError] },
        handler: ({ body }) => body === 1 ? Promise.reject(value) : undefined,
      });
      await clock.until(loop.run({ maxIterations: 2 }));
      assertEquals([loop.counts.deadLettered, loop.counts.acknowledged], [1, 1]);
    });

    it(`the error of a resource that cannot start names the thrown value: ${what}`, async () => {
      const bench = new Bench();
      const resources = [{ name: "database", start: () => Promise.reject(value), stop() {} }];
      const group = bench.group([bench.idle("idle")], { resources });
      await assertRejects(() => bench.clock.until(group.run()), Error, 'Resource "database"');
    });
  }
});

describe("hooks and listeners that fail", () => {
  afterEach(() => ShutdownCoordinator.reset());

  it("hooks and listeners that throw or reject are logged and do not stop a group", async () => {
    const bench = new Bench();
    const errors: string[] = [];
    const log = { ...silentLog, error: (message: string) => void errors.push(message) };
    const group = bench.group([bench.busy("loop", 5)], { log });
    group.on("phase", throwNow);
    group.on("phase", () => Promise.reject(new Error("rejected")) as never);
    const report = await bench.clock.until(group.run({ maxIterations: 1 }));
    await bench.clock.settle();
    assertEquals(report.exitCode, 0);
    assertEquals(new Set(errors), new Set(['a listener for "phase" events failed']));
    assertEquals(errors.length, 2 * report.phases.length);
  });

  for (
    const [how, onStall] of [["throws", throwNow], ["rejects", () => Promise.reject(1)]] as const
  ) {
    it(`the watchdog ends the process although onStall ${how}`, async () => {
      const { clock, runtime } = new Bench();
      const watchdog = new Watchdog({
        thresholdMs: 1_000,
        intervalMs: 100,
        clock,
        runtime,
        log: silentLog,
        onStall: onStall as () => void,
      });
      watchdog.watch("stuck", new Heartbeat(clock));
      watchdog.start();
      await clock.advance(1_200);
      assertEquals(runtime.kills > 0, true);
      await watchdog.stop();
    });
  }
});
