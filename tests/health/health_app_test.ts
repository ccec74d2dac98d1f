import { describe, it } from "node:test";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { LoopGroup } from "../../src/group/loop_group.ts";
import { StepLoop } from "../../src/loops/step_loop.ts";
import { healthApp } from "../../src/health/mod.ts";
import type { HealthOptions } from "../../src/health/mod.ts";
import { FakeRuntime, VirtualClock } from "../../src/testing/mod.ts";
import { Clinic } from "./_clinic.ts";

async function read(response: Response | Promise<Response>): Promise<[number, string]> {
  const { status } = await response;
  return [status, await (await response).text()];
}

const HEALTHY: [number, string] = [200, '{"status":"healthy"}'];
const UNHEALTHY: [number, string] = [503, '{"status":"unhealthy"}'];

describe("the health of a group", () => {
  it("is red before the start, green while it runs, red from the first moment of a stop", async () => {
    const clinic = new Clinic();
    const app = clinic.app();
    assertEquals(await read(app.request("/health/ready")), UNHEALTHY);
    assertEquals(await read(app.request("/health/live")), HEALTHY);
    await clinic.start();
    assertEquals(await read(app.request("/health/ready")), HEALTHY);

    await clinic.mailbox.send("tea");
    await clinic.clock.advance(10);
    const stopping = clinic.group.shutdown();
    assertEquals(await read(app.request("/health/ready")), UNHEALTHY);
    await clinic.clock.advance(1_500);
    assertEquals(clinic.group.health().phase, "draining");
    assertEquals(await read(app.request("/health/ready")), UNHEALTHY);
    assertEquals(await read(app.request("/health/live")), HEALTHY, "draining is no sickness");
    clinic.work.resolve();
    await clinic.clock.until(stopping);
  });

  it("is red while the engine is away and green when it is back", async () => {
    const clinic = new Clinic();
    const app = clinic.app();
    await clinic.start();
    clinic.mailbox.loseConnection();
    await clinic.clock.advance(21_000); // the receive that waits ends, and the next one fails
    assertEquals(await read(app.request("/health/ready")), UNHEALTHY);
    clinic.mailbox.restoreConnection();
    await clinic.clock.advance(5_000);
    assertEquals(await read(app.request("/health/ready")), HEALTHY);
    await clinic.stop();
  });

  it("is red when a heartbeat is stale, and dead when it is older than allowed", async () => {
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
    assertEquals([status, text], [503, "FAILED heartbeats: last heard of: stuck 61000 ms\n"]);
    await clock.until(group.shutdown({ timeoutMs: 1_000 }));
  });

  it("answers HEAD as GET, without a body, and is not to be kept", async () => {
    const clinic = new Clinic();
    const response = await clinic.app().request("/health/ready", { method: "HEAD" });
    assertEquals([response.status, await response.text()], [503, ""]);
    assertEquals(response.headers.get("cache-control"), "no-store");
  });

  it("depends on checks: one that throws, rejects, answers false or takes too long is red", async () => {
    const clinic = new Clinic();
    await clinic.start();
    let aborted = false;
    const app = clinic.app({
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
    await clinic.clock.advance(500);
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
    assertEquals(clinic.logged.length, 3, "the errors are in the log");
    const plain = read(app.request("/health/ready"));
    await clinic.clock.advance(500);
    assertEquals(await plain, UNHEALTHY);
    await clinic.stop();
  });

  it("asks nobody while the answer is known anyway", async () => {
    const clinic = new Clinic();
    let asked = 0;
    const app = clinic.app({ checks: { database: () => void asked++ } });
    assertEquals(await read(app.request("/health/ready")), UNHEALTHY);
    assertEquals(asked, 0);
    await clinic.start();
    assertEquals(await read(app.request("/health/ready")), HEALTHY);
    assertEquals(asked, 1);
    await clinic.stop();
  });
});

describe("the page of a group", () => {
  it("is one document whose policy allows its own script and style, and no other host", async () => {
    const response = await new Clinic().app().request("/");
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
  async function metrics(clinic: Clinic, options?: HealthOptions): Promise<string> {
    const response = await clinic.app(options).request("/metrics");
    assertMatch(response.headers.get("content-type") ?? "", /^text\/plain; version=/);
    return await response.text();
  }

  it("are there at zero before anything has happened", async () => {
    const text = await metrics(new Clinic());
    for (
      const line of [
        "lastcall_ready 0",
        "lastcall_live 1",
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

  it("tell what the loops have done, and how runs ended", async () => {
    const clinic = new Clinic();
    await clinic.start();
    await clinic.mailbox.sendMany(["one", "two"]);
    await clinic.clock.advance(2_000);
    const during = await metrics(clinic, { mailboxes: [clinic.mailbox] });
    assertMatch(during, /lastcall_loop_in_flight\{loop="jobs"\} 2\n/);
    assertMatch(during, /lastcall_loop_oldest_work_seconds\{loop="jobs"\} [12]\n/);
    assertMatch(during, /lastcall_mailbox_messages\{mailbox="jobs"\} 2\n/);
    clinic.work.resolve();
    await clinic.clock.advance(10);
    await clinic.stop();
    const after = await metrics(clinic);
    assertMatch(after, /lastcall_messages_total\{loop="jobs",outcome="acknowledged"\} 2\n/);
    assertMatch(after, /lastcall_runs_total\{outcome="drained"\} 1\n/);
  });

  it("of one app are not those of another, and may be asked for again", async () => {
    const [first, second] = [new Clinic(), new Clinic()];
    await first.start();
    const app = first.app();
    for (let i = 0; i < 2; i++) {
      assertMatch(await (await app.request("/metrics")).text(), /lastcall_ready 1\n/);
      assertMatch(await metrics(second), /lastcall_ready 0\n/);
    }
    await first.stop();
  });

  it("of others are shown as well, and left out when they do not come", async () => {
    const clinic = new Clinic();
    clinic.mailbox.loseConnection();
    const retries = {
      name: "pool_retries_total",
      help: "Retries.",
      type: "counter",
      samples: [{ labels: { reason: "terminating" }, value: 3 }],
    } as const;
    const text = await metrics(clinic, {
      mailboxes: [clinic.mailbox],
      metrics: [{ metrics: () => [retries] }],
    });
    assertMatch(text, /pool_retries_total\{reason="terminating"\} 3\n/);
    assert(!text.includes("lastcall_mailbox_messages"));
    assertEquals(clinic.logged, ["some metrics could not be collected"]);
  });
});
