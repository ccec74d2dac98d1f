import { hostname } from "node:os";
import process from "node:process";
import { describe, it } from "node:test";
import { assertEquals, assertMatch } from "@std/assert";
import manifest from "../../deno.json" with { type: "json" };
import { LoopGroup, type Runnable, silentLog, StepLoop } from "../../mod.ts";
import { CronLoop } from "../../src/cron/mod.ts";
import { healthApp, type Status } from "../../src/health/mod.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { deferred } from "../../src/_promises.ts";
import { FakeRuntime, VirtualClock } from "../../src/testing/mod.ts";
import { freePort } from "../engines/_servers.ts";
import { Fixture } from "./_fixture.ts";

async function statusOf(app: ReturnType<typeof healthApp>, query = ""): Promise<Status> {
  return await (await app.request(`/status${query}`)).json();
}

describe("the process in the status", () => {
  it("/status names the process: host, pid, start and version", async () => {
    const fixture = new Fixture();
    const app = fixture.app();
    await fixture.clock.advance(5_000);
    const { process: own, at } = await statusOf(app);
    const { id, startedAt, ...named } = own!;
    assertEquals(named, { name: hostname(), pid: process.pid, lastcall: manifest.version });
    assertEquals(at - startedAt, 5_000);
    assertMatch(id, /^[0-9a-f-]{36}$/);
  });

  it("/status has the name and the version of the options", async () => {
    const app = new Fixture().app({ name: "kitchen-1", version: "7.2" });
    const { process: own } = await statusOf(app);
    assertEquals([own?.name, own?.version], ["kitchen-1", "7.2"]);
  });

  it("/status?summary=true has the totals, and asks no engine", async () => {
    const fixture = new Fixture();
    let asked = 0;
    const counted = { name: "counted", approximateCount: () => Promise.resolve(++asked) };
    const app = fixture.app({ name: "kitchen", mailboxes: [counted], replicas: [] });
    await fixture.start();
    const summary = await statusOf(app, "?summary=true");
    assertEquals([summary.phase, summary.process?.name, summary.totals.loops], [
      "running",
      "kitchen",
      1,
    ]);
    const left = ["loops", "mailboxes", "agents", "replicas"].filter((name) => name in summary);
    assertEquals([left, asked], [[], 0]);
    await fixture.stop();
  });
});

describe("a cron loop in the status", () => {
  it("/status has the last and the next slot of a cron loop", async () => {
    const clock = new VirtualClock();
    const mailbox = new InMemoryMailbox<string>("reports", { clock });
    const options = { mailbox, body: "report", clock, log: silentLog };
    const hourly = new CronLoop({ ...options, name: "hourly", schedule: "0 * * * *" });
    const over = new CronLoop({ ...options, name: "over", schedule: "0 0 0 1 1 * 2000" });
    const group = new LoopGroup([hourly, over], { clock, runtime: new FakeRuntime() });
    const app = healthApp(group, { clock, log: silentLog });
    const slots = async () => (await statusOf(app)).loops.map(({ cron }) => cron);
    const hourMs = 3_600_000;
    const next = Math.floor(clock.now() / hourMs) * hourMs + hourMs;
    assertEquals(await slots(), [{ next }, {}], "before the start");
    const run = group.run();
    await clock.advance(next - clock.now() + 10);
    assertEquals(await slots(), [{ last: next, next: next + hourMs }, {}]);
    await clock.advance(hourMs);
    assertEquals(await slots(), [{ last: next + hourMs, next: next + 2 * hourMs }, {}]);
    assertEquals(hourly.next, new Date(next + 2 * hourMs));
    await clock.until(group.shutdown());
    await run;
  });
});

/** Runs a group with a health port until its end. Returns the last event of `/events`. */
async function lastEvent(
  loops: readonly Runnable[],
  { resources = [], ...options }: ConstructorParameters<typeof LoopGroup>[1] = {},
  stop: (group: LoopGroup) => unknown = () => {},
): Promise<{ readonly name: string; readonly status: Status }> {
  const port = await freePort();
  const connected = deferred<{ readonly text: Promise<string> }>();
  const connect = {
    name: "client",
    start: async () => {
      const response = await fetch(`http://127.0.0.1:${port}/events`);
      connected.resolve({ text: response.text() });
    },
    stop() {},
  };
  const group = new LoopGroup(loops, {
    ...{ log: silentLog, watchdogThresholdMs: false, healthPort: port, healthHost: "127.0.0.1" },
    ...options,
    resources: [connect, ...resources],
  });
  const run = group.run({ installSignals: false }).catch(() => {});
  const { text } = await connected.promise;
  await stop(group);
  await run;
  const last = (await text).trimEnd().split("\n\n").at(-1) ?? "";
  const [, name = "", data = "{}"] = /^event: (\w+)\ndata: (.*)$/.exec(last) ?? [];
  return { name, status: JSON.parse(data) };
}

describe("the last event of a run", () => {
  it("the last event of a drained group has its outcome and only the phases that it entered", async () => {
    const started = deferred();
    const idle = new StepLoop("idle", async ({ sleep }) => {
      started.resolve();
      await sleep(60_000);
    });
    const { name, status } = await lastEvent([idle], {}, async (group) => {
      await started.promise;
      await group.shutdown();
    });
    const { phase, phases, end } = status;
    assertEquals([name, phase, end], ["end", "stopped", { outcome: "drained", exitCode: 0 }]);
    assertEquals(phases, ["starting", "running", "unready", "draining", "stopped"]);
  });

  it("the last event of a group that ended by itself has no phases of a stop", async () => {
    const { status: { phases, end } } = await lastEvent([
      new StepLoop("once", () => false),
    ]);
    assertEquals(end, { outcome: "drained", exitCode: 0 });
    assertEquals(phases, ["starting", "running", "stopped"]);
  });

  it("the last event of a group that timed out has exit code 124", async () => {
    const started = deferred();
    const hung = new StepLoop("hung", () => (started.resolve(), new Promise<void>(() => {})));
    const { status } = await lastEvent([hung], {}, async (group) => {
      await started.promise;
      await group.shutdown({ timeoutMs: 300 });
    });
    const { phases, end } = status;
    assertEquals(end, { outcome: "timed_out", exitCode: 124 });
    assertEquals(phases, ["starting", "running", "unready", "draining", "cancelling", "stopped"]);
  });

  it("the last event of a group that failed has exit code 1", async () => {
    const failing = new StepLoop("failing", () => {
      throw new Error("broken");
    });
    const { status: { phases, end } } = await lastEvent([failing]);
    assertEquals(end, { outcome: "failed", exitCode: 1 });
    assertEquals(phases, ["starting", "running", "stopped"]);
  });

  it("the last event of a group that could not start has exit code 1", async () => {
    const broken = {
      name: "database",
      start: () => Promise.reject(new Error("refused")),
      stop() {},
    };
    const idle = new StepLoop("idle", ({ sleep }) => sleep(60_000));
    const { status: { phases, end } } = await lastEvent([idle], { resources: [broken] });
    assertEquals(end, { outcome: "failed", exitCode: 1 });
    assertEquals(phases, ["starting", "stopped"]);
  });

  it("/status of a mounted app has the outcome after the stop", async () => {
    const fixture = new Fixture();
    const app = fixture.app();
    await fixture.start();
    await fixture.stop();
    const { phase, end } = await statusOf(app);
    assertEquals([phase, end], ["stopped", { outcome: "drained", exitCode: 0 }]);
  });
});
