import { describe, it } from "node:test";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { LoopGroup } from "../../src/group/loop_group.ts";
import { StepLoop } from "../../src/loops/step_loop.ts";
import { healthApp } from "../../src/health/mod.ts";
import type { HealthOptions } from "../../src/health/mod.ts";
import { FakeRuntime, VirtualClock } from "../../src/testing/mod.ts";
import { Fixture } from "./_fixture.ts";

async function read(response: Response | Promise<Response>): Promise<[number, string]> {
  const { status } = await response;
  return [status, await (await response).text()];
}

const HEALTHY: [number, string] = [200, '{"status":"healthy"}'];
const UNHEALTHY: [number, string] = [503, '{"status":"unhealthy"}'];

describe("the health of a group", () => {
  it("readiness is 503 before the start, 200 while running, and 503 as soon as a stop begins", async () => {
    const fixture = new Fixture();
    const app = fixture.app();
    assertEquals(await read(app.request("/health/ready")), UNHEALTHY);
    assertEquals(await read(app.request("/health/live")), HEALTHY);
    await fixture.start();
    assertEquals(await read(app.request("/health/ready")), HEALTHY);

    await fixture.mailbox.send("tea");
    await fixture.clock.advance(10);
    const stopping = fixture.group.shutdown();
    assertEquals(await read(app.request("/health/ready")), UNHEALTHY);
    await fixture.clock.advance(1_500);
    assertEquals(fixture.group.health().phase, "draining");
    assertEquals(await read(app.request("/health/ready")), UNHEALTHY);
    assertEquals(await read(app.request("/health/live")), HEALTHY, "a draining process is live");
    fixture.work.resolve();
    await fixture.clock.until(stopping);
  });

  it("readiness is 503 while the engine is unreachable", async () => {
    const fixture = new Fixture();
    const app = fixture.app();
    await fixture.start();
    fixture.mailbox.loseConnection();
    await fixture.clock.advance(21_000); // the receive that waits ends, and the next one fails
    assertEquals(await read(app.request("/health/ready")), UNHEALTHY);
    fixture.mailbox.restoreConnection();
    await fixture.clock.advance(5_000);
    assertEquals(await read(app.request("/health/ready")), HEALTHY);
    await fixture.stop();
  });

  it("readiness fails at half of the watchdog threshold, and liveness at the threshold", async () => {
    const clock = new VirtualClock();
    const stuck = new StepLoop("stuck", () => clock.sleep(1e9), { clock });
    const group = new LoopGroup([stuck], {
      clock,
      runtime: new FakeRuntime(),
      watchdogThresholdMs: 60_000,
      watchdogIntervalMs: 1e6,
    });
    group.run().catch(() => {});
    const app = healthApp(group, { clock });
    await clock.advance(29_000);
    assertEquals(await read(app.request("/health/ready")), HEALTHY);
    await clock.advance(2_000);
    assertEquals(await read(app.request("/health/ready")), UNHEALTHY);
    assertEquals(await read(app.request("/health/live")), HEALTHY);
    await clock.advance(30_000);
    assertEquals(await read(app.request("/health/live")), UNHEALTHY);
    const [status, text] = await read(app.request("/health/live?verbose"));
    assertEquals([status, text], [503, "FAILED heartbeats: last heartbeats: stuck 61000 ms\n"]);
    await clock.until(group.shutdown({ timeoutMs: 1_000 }));
  });

  it("readiness answers HEAD without a body and forbids caching", async () => {
    const fixture = new Fixture();
    const response = await fixture.app().request("/health/ready", { method: "HEAD" });
    assertEquals([response.status, await response.text()], [503, ""]);
    assertEquals(response.headers.get("cache-control"), "no-store");
  });

  it("readiness fails when a check throws, rejects, returns false or times out", async () => {
    const fixture = new Fixture();
    await fixture.start();
    let aborted = false;
    const app = fixture.app({
      checkTimeoutMs: 500,
      checks: {
        fine: () => true,
        silent: () => {},
        throwing: () => {
          throw new Error("postgres://ada:secret@db is away");
        },
        rejecting: () => Promise.reject(new Error("no")),
        negative: () => Promise.resolve(false),
        hanging: ({ signal }) =>
          new Promise((_, reject) => {
            signal.onabort = () => {
              aborted = true;
              reject(new Error("late"));
            };
          }),
      },
    });
    const answer = read(app.request("/health/ready?verbose"));
    await fixture.clock.advance(500);
    assertEquals(await answer, [
      503,
      [
        "ok phase",
        "ok loop jobs",
        "ok fine",
        "ok silent",
        "FAILED throwing: failed",
        "FAILED rejecting: failed",
        "FAILED negative: failed",
        "FAILED hanging: no answer within 500 ms",
        "",
      ].join("\n"),
    ]);
    assert(aborted);
    assertEquals(fixture.logged.length, 3, "the errors are in the log");
    const plain = read(app.request("/health/ready"));
    await fixture.clock.advance(500);
    assertEquals(await plain, UNHEALTHY);
    await fixture.stop();
  });

  it("readiness calls no check while the group itself is not ready", async () => {
    const fixture = new Fixture();
    let asked = 0;
    const app = fixture.app({ checks: { database: () => void asked++ } });
    assertEquals(await read(app.request("/health/ready")), UNHEALTHY);
    assertEquals(asked, 0);
    await fixture.start();
    assertEquals(await read(app.request("/health/ready")), HEALTHY);
    assertEquals(asked, 1);
    await fixture.stop();
  });
});

describe("the page of a group", () => {
  it("the page is one document whose policy allows only its own script, style and host", async () => {
    const response = await new Fixture().app().request("/");
    const page = await response.text();
    assertEquals(response.status, 200);
    assertMatch(response.headers.get("content-type") ?? "", /^text\/html/);
    const policy = response.headers.get("content-security-policy") ?? "";
    for (const element of ["script", "style"]) {
      const [, text = ""] = new RegExp(`<${element}[^>]*>([^]*?)</${element}>`).exec(page) ?? [];
      const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
      const hash = btoa(String.fromCharCode(...new Uint8Array(digest)));
      assert(policy.includes(`${element}-src 'sha256-${hash}'`), policy);
    }
    assertMatch(policy, /default-src 'none'.*connect-src 'self'.*frame-ancestors 'none'/);
    assert(!/unsafe|https?:/.test(policy), policy);
  });
});

describe("the metrics of a group", () => {
  async function metrics(fixture: Fixture, options?: HealthOptions): Promise<string> {
    const response = await fixture.app(options).request("/metrics");
    assertMatch(response.headers.get("content-type") ?? "", /^text\/plain; version=/);
    return await response.text();
  }

  it("/metrics has all metrics before the first run", async () => {
    const text = await metrics(new Fixture());
    for (
      const line of [
        "lastcall_ready 0",
        "lastcall_live 1",
        "lastcall_paused 0",
        'lastcall_phase{phase="starting"} 1',
        'lastcall_phase{phase="draining"} 0',
        'lastcall_runs_total{outcome="timed_out"} 0',
        'lastcall_loop_in_flight{loop="jobs"} 0',
        'lastcall_loop_restarts_total{loop="jobs"} 0',
        'lastcall_messages_total{loop="jobs",outcome="dead_lettered"} 0',
        'lastcall_leases_total{loop="jobs",result="losses"} 0',
        "# TYPE lastcall_messages_total counter",
      ]
    ) assert(text.includes(`${line}\n`), `${line} is missing in\n${text}`);
  });

  it("/metrics counts work in flight, messages by outcome and runs by outcome", async () => {
    const fixture = new Fixture();
    await fixture.start();
    await fixture.mailbox.sendMany(["one", "two"]);
    await fixture.clock.advance(2_000);
    const during = await metrics(fixture);
    assertMatch(during, /lastcall_loop_in_flight\{loop="jobs"\} 2\n/);
    assertMatch(during, /lastcall_loop_oldest_work_seconds\{loop="jobs"\} [12]\n/);
    fixture.work.resolve();
    await fixture.clock.advance(10);
    await fixture.stop();
    const after = await metrics(fixture);
    assertMatch(after, /lastcall_messages_total\{loop="jobs",outcome="acknowledged"\} 2\n/);
    assertMatch(after, /lastcall_runs_total\{outcome="drained"\} 1\n/);
  });

  it("/metrics of two groups in one process are separate", async () => {
    const [first, second] = [new Fixture(), new Fixture()];
    await first.start();
    const app = first.app();
    for (let i = 0; i < 2; i++) {
      assertMatch(await (await app.request("/metrics")).text(), /lastcall_ready 1\n/);
      assertMatch(await metrics(second), /lastcall_ready 0\n/);
    }
    await first.stop();
  });

  it("/metrics includes the sources of the options, and leaves out and logs those that fail", async () => {
    const fixture = new Fixture();
    const retries = {
      name: "pool_retries_total",
      help: "Retries.",
      type: "counter",
      samples: [{ labels: { reason: "terminating" }, value: 3 }],
    } as const;
    const text = await metrics(fixture, {
      metrics: [
        { metrics: () => [retries] },
        { metrics: () => Promise.reject(new Error("no metrics")) },
      ],
    });
    assertMatch(text, /pool_retries_total\{reason="terminating"\} 3\n/);
    assertEquals(fixture.logged, ["metrics not collected"]);
  });
});
