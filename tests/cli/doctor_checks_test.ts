import { describe, it } from "node:test";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { LoopGroup, silentLog, StepLoop } from "../../mod.ts";
import { FULL_CAPABILITIES } from "../../src/mailbox/mailbox.ts";
import { FakeRuntime, VirtualClock } from "../../src/testing/mod.ts";
import { graceFor, headroomMs, timeoutFor, workTimeMs } from "../../cli/doctor/budget.ts";
import { checkCapabilities } from "../../cli/doctor/check_capabilities.ts";
import { checkDrain } from "../../cli/doctor/check_drain.ts";
import { checkGrace } from "../../cli/doctor/check_grace.ts";
import { checkLease } from "../../cli/doctor/check_lease.ts";
import { checkPlatform } from "../../cli/doctor/check_platform.ts";
import { checkRuntime } from "../../cli/doctor/check_runtime.ts";
import { checkUnready } from "../../cli/doctor/check_unready.ts";
import { checkVisibility } from "../../cli/doctor/check_visibility.ts";
import { checkWatchdog } from "../../cli/doctor/check_watchdog.ts";
import type { Finding, Level } from "../../cli/doctor/finding.ts";
import { detectPlatform, platformOf, PLATFORMS } from "../../cli/doctor/platforms.ts";
import type { Settings } from "../../cli/doctor/settings.ts";
import { asFlag, spell } from "../../cli/doctor/times.ts";

/** What holds where nobody has said anything. */
const DEFAULTS: Settings = {
  platform: platformOf("none"),
  shutdownTimeoutMs: 30_000,
  unreadyDelayMs: 0,
  visibilityTimeoutMs: 300_000,
  leases: true,
  watchdogThresholdMs: 720_000,
  healthHost: "0.0.0.0",
};

function on(name: string, more: Partial<Settings> = {}): Partial<Settings> {
  const platform = platformOf(name);
  return { platform, graceMs: platform.graceMs!, ...more };
}

/** A case: what is set, how bad that is, and what the finding says to change. */
type Case = readonly [set: Partial<Settings>, level: Level | "nothing", says?: RegExp];

function table(check: (settings: Settings) => readonly Finding[], cases: readonly Case[]): void {
  for (const [set, level, says] of cases) {
    const { platform, ...rest } = set;
    const name = JSON.stringify({ ...(platform && { platform: platform.name }), ...rest });
    it(`${name} is ${level === "nothing" ? "nothing to say" : level}`, () => {
      const [finding, ...others] = check({ ...DEFAULTS, ...set });
      assertEquals(others, []);
      assertEquals(finding?.level ?? "nothing", level);
      if (says !== undefined) assertMatch(finding?.change ?? finding?.found ?? "", says);
      // What is not well says why, and what to do.
      if (level === "warning" || level === "problem") assert(finding?.why && finding.change);
    });
  }
}

describe("the time of a stop", () => {
  const cases = [[30_000, 0], [30_000, 5_000], [5_000, 0], [4_500, 1_000], [800, 0], [
    90_000,
    60_000,
  ]];
  for (const [timeoutMs = 0, delayMs = 0] of cases) {
    it(`${timeoutMs} ms with ${delayMs} ms unready is spent as a real group spends it`, async () => {
      const clock = new VirtualClock();
      const runtime = new FakeRuntime();
      let cancelledAt: number | undefined;
      const loop = new StepLoop("stuck", ({ signal }) =>
        new Promise<void>((resolve) => {
          signal.addEventListener("abort", () => {
            cancelledAt = clock.monotonic();
            resolve();
          });
        }), { clock });
      const group = new LoopGroup([loop], {
        ...{ clock, runtime, log: silentLog, watchdogThresholdMs: null },
        ...{ shutdownTimeoutMs: timeoutMs, unreadyDelayMs: delayMs },
      });
      const run = group.run({ installSignals: false });
      await clock.advance(1);
      const began = clock.monotonic();
      void group.shutdown();
      await clock.advance(timeoutMs);
      await run;
      const expected = delayMs + workTimeMs(timeoutMs, delayMs);
      assert(Math.abs(cancelledAt! - began - expected) <= 1, `${cancelledAt! - began} ${expected}`);
    });
  }

  it("is found for work and for a delay, and so is the grace for it", () => {
    for (const workMs of [100, 900, 5_000, 9_900, 28_000, 600_000]) {
      for (const delayMs of [0, 5_000]) {
        const timeoutMs = timeoutFor(workMs, delayMs);
        assert(workTimeMs(timeoutMs, delayMs) >= workMs);
        assert(workTimeMs(timeoutMs - 1_000, delayMs) < workMs);
        const graceMs = graceFor(timeoutMs);
        assert(graceMs - headroomMs(graceMs) >= timeoutMs);
      }
    }
  });

  it("is said exactly, and as flags take it", () => {
    const cases = [[0, "0 s"], [500, "500 ms"], [4_500, "4.5 s"], [90_000, "90 s"]] as const;
    for (const [ms, text] of [...cases, [300_000, "5 min"], [43_200_000, "12 h"]] as const) {
      assertEquals(spell(ms), text);
    }
    assertEquals([28_000, 4_500, 500, 300_000].map(asFlag), ["28s", "4.5s", "500ms", "5m"]);
  });
});

describe("the platform", () => {
  it("has the signal and the grace that it has by default", () => {
    const facts = PLATFORMS.map(({ name, signal, graceMs }) => [name, signal, graceMs]);
    assertEquals(facts, [
      ["fly", "SIGINT", 5_000],
      ["deno-deploy", "SIGINT", 5_000],
      ["cloud-run", "SIGTERM", 10_000],
      ["ecs", "SIGTERM", 30_000],
      ["kubernetes", "SIGTERM", 30_000],
      ["systemd", "SIGTERM", 90_000],
      ["docker", "SIGTERM", 10_000],
      ["none", "SIGTERM", undefined],
    ]);
  });

  it("is told by the environment", () => {
    for (const { name, variable } of PLATFORMS) {
      if (variable !== undefined) assertEquals(detectPlatform({ [variable]: "x" }).name, name);
    }
    assertEquals(detectPlatform({ PATH: "/bin", FLY_APP_NAME: "" }).name, "none");
  });

  table(checkPlatform, [
    [{}, "ok", /name yours by --platform/],
    [on("fly"), "ok", /Fly.io sends SIGINT and kills after 5 s$/],
    [on("kubernetes", { graceMs: 60_000 }), "ok", /after 60 s, as you say/],
    [on("ecs", { detectedBy: "ECS_X" }), "ok", /\(ECS_X is set\)/],
    [{ graceMs: 20_000 }, "ok", /the supervisor sends SIGTERM and kills after 20 s/],
  ]);
});

describe("the stop against the grace", () => {
  table(checkGrace, [
    [{}, "ok"],
    [on("kubernetes"), "problem", /^--shutdown-timeout 28s; or terminationGracePeriodSeconds: 32 /],
    [on("kubernetes", { shutdownTimeoutMs: 29_000 }), "warning", /--shutdown-timeout 28s/],
    [on("kubernetes", { shutdownTimeoutMs: 28_000 }), "ok"],
    [on("kubernetes", { graceMs: 60_000 }), "ok"],
    [
      on("docker"),
      "problem",
      /^--shutdown-timeout 9s; or docker stop -t 32, or stop_grace_period: 32s/,
    ],
    [on("systemd"), "ok"],
    [on("systemd", { shutdownTimeoutMs: 120_000 }), "problem", /TimeoutStopSec=122/],
    [on("fly"), "problem", /^--shutdown-timeout 4.5s; or kill_timeout = 32/],
    [on("ecs"), "problem", /"stopTimeout": 32/],
    // Nobody can change these.
    [on("deno-deploy"), "problem", /^--shutdown-timeout 4.5s$/],
    [on("cloud-run"), "problem", /^--shutdown-timeout 9s$/],
    [{ graceMs: 20_000 }, "problem", /^--shutdown-timeout 18s; or a grace of 32 s$/],
  ]);
});

describe("the unready delay", () => {
  const five = { unreadyDelayMs: 5_000 };
  table(checkUnready, [
    [{}, "ok"],
    [on("kubernetes", { healthPort: 8080 }), "ok", /a service that takes requests needs some/],
    [on("kubernetes", { ...five, healthPort: 8080 }), "ok", /red for 5 s/],
    [on("kubernetes", five), "warning", /--health-port 8080, or --unready-delay 0s/],
    [on("docker", { ...five, healthPort: 8080 }), "warning", /^--unready-delay 0s$/],
    [{ unreadyDelayMs: 30_000 }, "problem", /^--shutdown-timeout 62s, or a shorter/],
    [{ unreadyDelayMs: 30_000, processingTimeMs: 10_000 }, "problem", /^--shutdown-timeout 42s/],
  ]);
});

describe("the longest work against the stop", () => {
  const work = (processingTimeMs: number) => ({ processingTimeMs });
  table(checkDrain, [
    [{}, "ok", /^0 s unready \+ 28 s for work \+ 2 s reserve = 30 s; --processing-time/],
    [work(28_000), "ok"],
    [work(28_001), "problem", /^--shutdown-timeout 31s; or save/],
    [{ ...work(20_000), unreadyDelayMs: 10_000 }, "problem", /^--shutdown-timeout 32s; /],
    [on("kubernetes", work(40_000)), "problem", /^--shutdown-timeout 42s with termination.*: 44 /],
    [
      on("kubernetes", { ...work(20_000), shutdownTimeoutMs: 10_000 }),
      "problem",
      /^--shutdown-timeout 22s; /,
    ],
    [
      on("cloud-run", work(60_000)),
      "problem",
      /^shorter work, since Cloud Run never gives more than 10 s/,
    ],
    [
      { graceMs: 20_000, ...work(40_000) },
      "problem",
      /^--shutdown-timeout 42s with a grace of 44 s;/,
    ],
    [{ unreadyDelayMs: 40_000 }, "nothing"],
  ]);
});

describe("the visibility timeout against the longest work", () => {
  const alone = { leases: false };
  table(checkVisibility, [
    [{}, "ok"],
    [{ processingTimeMs: 3_600_000 }, "ok", /for as long as it is worked on/],
    [alone, "warning", /--processing-time/],
    [{ ...alone, processingTimeMs: 150_000 }, "ok"],
    [{ ...alone, processingTimeMs: 150_001 }, "warning", /^--visibility-timeout 301s, or keep/],
    [{ ...alone, processingTimeMs: 300_000 }, "problem", /^--visibility-timeout 10m, or keep/],
    [{ visibilityTimeoutMs: 0 }, "problem"],
    [{ visibilityTimeoutMs: 43_200_001 }, "problem"],
  ]);
});

describe("the interval of leases against the visibility timeout", () => {
  table(checkLease, [
    [{}, "ok", /every 60 s/],
    [{ leases: false }, "nothing"],
    [{ visibilityTimeoutMs: 60_000 }, "ok", /every 24 s/],
    [{ leaseIntervalMs: 120_000 }, "ok"],
    [{ leaseIntervalMs: 120_001 }, "warning", /^--lease-interval 2m at the most/],
    [{ leaseIntervalMs: 300_000 }, "problem", /^--lease-interval 2m/],
    [{ visibilityTimeoutMs: 5_000 }, "warning", /^--visibility-timeout 10s or more/],
    [{ visibilityTimeoutMs: 10_000 }, "ok"],
  ]);
});

describe("the watchdog against the longest work", () => {
  table(checkWatchdog, [
    [{}, "ok"],
    [{ processingTimeMs: 360_000 }, "ok"],
    [{ processingTimeMs: 360_001 }, "warning", /beat\(\).*watchdogThresholdMs: 721000/],
    [{ processingTimeMs: 720_000 }, "problem", /watchdogThresholdMs: 1440000/],
    [{ watchdogThresholdMs: null }, "warning"],
  ]);
});

describe("what an engine can do", () => {
  const level = (lacks: Partial<typeof FULL_CAPABILITIES>) =>
    checkCapabilities({ ...FULL_CAPABILITIES, ...lacks })[0]?.level;

  it("is nothing to speak of where it is everything", () => assertEquals(level({}), undefined));

  it("is mentioned where order is all it lacks", () => assertEquals(level({ fifo: false }), "ok"));

  it("is a warning where a stale receipt or a stop can do harm", () => {
    assertEquals(level({ fencedAck: false, fifo: false }), "warning");
    assertEquals(level({ restoresAttempts: false }), "warning");
  });
});

describe("the runtime", () => {
  const node = (version: string, pid = 7, moduleExists = true) =>
    checkRuntime({ ...DEFAULTS, module: "worker.ts" }, {
      name: "node",
      version,
      pid,
      moduleExists,
    });

  it("must be able to load the module", () => {
    const level = (version: string) => node(version)[0]?.level;
    assertEquals(["20.20.2", "22.17.1", "23.5.0"].map(level), Array(3).fill("problem"));
    assertEquals(["22.18.0", "23.6.0", "24.0.0"].map(level), Array(3).fill("ok"));
    const facts = { name: "node", version: "20.16.0", pid: 7, moduleExists: true };
    assertEquals(checkRuntime({ ...DEFAULTS, module: "w.mjs" }, facts)[0]?.level, "ok");
    const bun = { ...facts, name: "bun", version: "1.4.4" };
    assertEquals(checkRuntime({ ...DEFAULTS, module: "w.ts" }, bun)[0]?.level, "ok");
  });

  it("finds no module where there is none", () => {
    assertMatch(node("24.0.0", 7, false)[0]?.found ?? "", /there is no module worker\.ts/);
  });

  it("warns the first process of a container", () => {
    assertEquals(node("24.0.0").length, 1);
    assertEquals(node("24.0.0", 1)[1]?.level, "warning");
  });
});
