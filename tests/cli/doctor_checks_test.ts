import { describe, it } from "node:test";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { LoopGroup, MailboxConnectionError, silentLog, StepLoop } from "../../mod.ts";
import { FULL_CAPABILITIES } from "../../src/mailbox/mailbox.ts";
import { FakeRuntime, VirtualClock } from "../../src/testing/mod.ts";
import { checkCapabilities, failureFinding } from "../../cli/doctor/engine_check.ts";
import { checkRuntime } from "../../cli/doctor/environment_checks.ts";
import { durationText, type Finding, flagValue, type Level } from "../../cli/doctor/finding.ts";
import { detectPlatform, platformOf, PLATFORMS, type Settings } from "../../cli/doctor/settings.ts";
import {
  checkDrain,
  checkGrace,
  checkPlatform,
  checkUnready,
  graceFor,
  headroomMs,
  timeoutFor,
  workTimeMs,
} from "../../cli/doctor/stop_checks.ts";
import { checkLease, checkVisibility, checkWatchdog } from "../../cli/doctor/work_checks.ts";

/** The settings of a worker without any flag. */
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

/** The settings, the expected level, and a pattern of what to change. */
type Case = readonly [set: Partial<Settings>, level: Level | "nothing", says?: RegExp];

function table(check: (settings: Settings) => readonly Finding[], cases: readonly Case[]): void {
  for (const [set, level, says] of cases) {
    const { platform, ...rest } = set;
    const name = JSON.stringify({ ...(platform && { platform: platform.name }), ...rest });
    it(`${name} is ${level === "nothing" ? "not reported" : level}`, () => {
      const [finding, ...others] = check({ ...DEFAULTS, ...set });
      assertEquals(others, []);
      assertEquals(finding?.level ?? "nothing", level);
      if (says !== undefined) assertMatch(finding?.change ?? finding?.found ?? "", says);
      // Every warning and problem says why, and what to change.
      if (level === "warning" || level === "problem") assert(finding?.why && finding.change);
    });
  }
}

describe("doctor: the time of a shutdown", () => {
  const cases = [[30_000, 0], [30_000, 5_000], [5_000, 0], [4_500, 1_000], [800, 0], [
    90_000,
    60_000,
  ]];
  for (const [timeoutMs = 0, delayMs = 0] of cases) {
    it(`${timeoutMs} ms with ${delayMs} ms unready is divided as a real group divides it`, async () => {
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
        ...{ clock, runtime, log: silentLog, watchdogThresholdMs: false },
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

  it("timeoutFor and graceFor return the shortest values that are enough", () => {
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

  it("durations are exact, also as flag values", () => {
    const cases = [[0, "0 s"], [500, "500 ms"], [4_500, "4.5 s"], [90_000, "90 s"]] as const;
    for (const [ms, text] of [...cases, [300_000, "5 min"], [43_200_000, "12 h"]] as const) {
      assertEquals(durationText(ms), text);
    }
    assertEquals([28_000, 4_500, 500, 300_000].map(flagValue), ["28s", "4.5s", "500ms", "5m"]);
  });
});

describe("doctor: platform", () => {
  it("doctor knows the signal and the grace period of each platform", () => {
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

  it("doctor detects the platform by its environment variable", () => {
    for (const { name, variable } of PLATFORMS) {
      if (variable !== undefined) assertEquals(detectPlatform({ [variable]: "x" }).name, name);
    }
    assertEquals(detectPlatform({ PATH: "/bin", FLY_APP_NAME: "" }).name, "none");
  });

  table(checkPlatform, [
    [{}, "ok", /set --platform$/],
    [on("fly"), "ok", /Fly.io sends SIGINT and kills after 5 s$/],
    [on("kubernetes", { graceMs: 60_000 }), "ok", /after 60 s \(--grace\)/],
    [on("ecs", { detectedBy: "ECS_X" }), "ok", /\(ECS_X is set\)/],
    [{ graceMs: 20_000 }, "ok", /the supervisor sends SIGTERM and kills after 20 s/],
  ]);
});

describe("doctor: grace", () => {
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
    // These platforms have a fixed grace period.
    [on("deno-deploy"), "problem", /^--shutdown-timeout 4.5s$/],
    [on("cloud-run"), "problem", /^--shutdown-timeout 9s$/],
    [{ graceMs: 20_000 }, "problem", /^--shutdown-timeout 18s; or a grace period of 32 s$/],
  ]);
});

describe("doctor: unready", () => {
  const five = { unreadyDelayMs: 5_000 };
  table(checkUnready, [
    [{}, "ok"],
    [on("kubernetes", { healthPort: 8080 }), "ok", /a service that takes requests needs a few/],
    [on("kubernetes", { ...five, healthPort: 8080 }), "ok", /not ready for 5 s before/],
    [on("kubernetes", five), "warning", /--health-port 8080, or --unready-delay 0s/],
    [on("docker", { ...five, healthPort: 8080 }), "warning", /^--unready-delay 0s$/],
    [{ unreadyDelayMs: 30_000 }, "problem", /^--shutdown-timeout 62s, or a shorter/],
    [{ unreadyDelayMs: 30_000, processingTimeMs: 10_000 }, "problem", /^--shutdown-timeout 42s/],
  ]);
});

describe("doctor: drain", () => {
  const work = (processingTimeMs: number) => ({ processingTimeMs });
  table(checkDrain, [
    [{}, "ok", /^0 s unready \+ 28 s for work \+ 2 s reserve = 30 s; set --processing-time/],
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
      /^shorter handlers, since Cloud Run never gives more than 10 s/,
    ],
    [
      { graceMs: 20_000, ...work(40_000) },
      "problem",
      /^--shutdown-timeout 42s with a grace period of 44 s;/,
    ],
    [{ unreadyDelayMs: 40_000 }, "nothing"],
  ]);
});

describe("doctor: visibility", () => {
  const alone = { leases: false };
  table(checkVisibility, [
    [{}, "ok"],
    [{ processingTimeMs: 3_600_000 }, "ok", /extended while a handler runs/],
    [alone, "warning", /--processing-time/],
    [{ ...alone, processingTimeMs: 150_000 }, "ok"],
    [{ ...alone, processingTimeMs: 150_001 }, "warning", /^--visibility-timeout 301s, or extend/],
    [{ ...alone, processingTimeMs: 300_000 }, "problem", /^--visibility-timeout 10m, or extend/],
    [{ visibilityTimeoutMs: 0 }, "problem"],
    [{ visibilityTimeoutMs: 43_200_001 }, "problem"],
  ]);
});

describe("doctor: lease", () => {
  table(checkLease, [
    [{}, "ok", /every 60 s/],
    [{ leases: false }, "nothing"],
    [{ visibilityTimeoutMs: 60_000 }, "ok", /every 24 s/],
    [{ leaseIntervalMs: 120_000 }, "ok"],
    [{ leaseIntervalMs: 120_001 }, "warning", /^--lease-interval 2m or less/],
    [{ leaseIntervalMs: 300_000 }, "problem", /^--lease-interval 2m/],
    [{ visibilityTimeoutMs: 5_000 }, "warning", /^--visibility-timeout 10s or more/],
    [{ visibilityTimeoutMs: 10_000 }, "ok"],
  ]);
});

describe("doctor: watchdog", () => {
  table(checkWatchdog, [
    [{}, "ok"],
    [{ processingTimeMs: 360_000 }, "ok"],
    [{ processingTimeMs: 360_001 }, "warning", /beat\(\).*watchdogThresholdMs: 721000/],
    [{ processingTimeMs: 720_000 }, "problem", /watchdogThresholdMs: 1440000/],
    [{ watchdogThresholdMs: false }, "warning"],
  ]);
});

describe("doctor: engine", () => {
  const of = (reason?: MailboxConnectionError["reason"]) =>
    failureFinding(new MailboxConnectionError("the message", reason ? { reason } : {}));

  it("doctor accepts a server without tables or with old ones, which the worker creates or updates", () => {
    assertMatch(of("schema_missing").found, /creates its tables when it starts/);
    assertMatch(of("schema_outdated").found, /updates its tables when it starts/);
    assertEquals([of("schema_missing").level, of("schema_outdated").level], ["ok", "ok"]);
  });

  it("doctor tells a missing package from an unreachable server by the reason of the error", () => {
    assertEquals([of("client_missing").level, of().level], ["problem", "problem"]);
    assertEquals(of("client_missing").change, "install the package");
    assertMatch(of().change ?? "", /the network/);
  });
});

describe("doctor: capabilities", () => {
  const level = (lacks: Partial<typeof FULL_CAPABILITIES>) =>
    checkCapabilities({ ...FULL_CAPABILITIES, ...lacks })[0]?.level;

  it("doctor reports nothing for an engine with all capabilities", () =>
    assertEquals(level({}), undefined));

  it("doctor mentions an engine without order", () => assertEquals(level({ fifo: false }), "ok"));

  it("doctor warns about stale receipt handles and lost attempts", () => {
    assertEquals(level({ fencedAck: false, fifo: false }), "warning");
    assertEquals(level({ restoresAttempts: false }), "warning");
  });
});

describe("doctor: runtime", () => {
  const node = (version: string, pid = 7, moduleExists = true) =>
    checkRuntime({ ...DEFAULTS, module: "worker.ts" }, {
      name: "node",
      version,
      pid,
      moduleExists,
    });

  it("doctor finds a Node that cannot load TypeScript", () => {
    const level = (version: string) => node(version)[0]?.level;
    assertEquals(["20.20.2", "22.17.1", "23.5.0"].map(level), Array(3).fill("problem"));
    assertEquals(["22.18.0", "23.6.0", "24.0.0"].map(level), Array(3).fill("ok"));
    const facts = { name: "node", version: "20.16.0", pid: 7, moduleExists: true };
    assertEquals(checkRuntime({ ...DEFAULTS, module: "w.mjs" }, facts)[0]?.level, "ok");
    const bun = { ...facts, name: "bun", version: "1.4.4" };
    assertEquals(checkRuntime({ ...DEFAULTS, module: "w.ts" }, bun)[0]?.level, "ok");
  });

  it("doctor finds a missing module", () => {
    assertMatch(node("24.0.0", 7, false)[0]?.found ?? "", /no module worker\.ts/);
  });

  it("doctor warns when it is PID 1", () => {
    assertEquals(node("24.0.0").length, 1);
    assertEquals(node("24.0.0", 1)[1]?.level, "warning");
  });
});
