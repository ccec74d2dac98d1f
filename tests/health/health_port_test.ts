import { describe, it } from "node:test";
import { assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { LoopGroup, ShutdownCoordinator, silentLog, StepLoop } from "../../mod.ts";
import { FakeRuntime } from "../../src/testing/mod.ts";
import { deferred } from "../../src/_promises.ts";
import { Client } from "../adapters/_client.ts";
import { freePort } from "../engines/_servers.ts";

const LOCAL = { healthHost: "127.0.0.1", log: silentLog } as const;

describe("a group with a healthPort", () => {
  it("healthPort answers probes from the start of the group to the end of its stop", async () => {
    const [started, work] = [deferred(), deferred()];
    const loop = new StepLoop("work", async () => {
      started.resolve();
      await work.promise;
    });
    const port = await freePort();
    const resource = { name: "slow", started: deferred(), go: deferred() };
    const group = new LoopGroup([loop], {
      ...LOCAL,
      healthPort: port,
      health: { checks: { fine: () => true } },
      resources: [{
        name: resource.name,
        start() {
          resource.started.resolve();
          return resource.go.promise;
        },
        stop() {},
      }],
    });
    const status = async (path: string) => {
      const response = await fetch(`http://127.0.0.1:${port}${path}`);
      await response.body?.cancel();
      return response.status;
    };
    const run = group.run({ installSignals: false });
    await resource.started.promise;
    assertEquals(await status("/health/ready"), 503, "while it starts");
    resource.go.resolve();
    await started.promise;
    assertEquals(await status("/health/ready"), 200);
    const stopped = group.shutdown();
    assertEquals([await status("/health/ready"), await status("/health/live")], [503, 200]);
    work.resolve();
    await stopped;
    await run;
    await assertRejects(() => status("/health/live"));
    ShutdownCoordinator.reset();
  });

  it("healthPort answers HTTP/1.0 probes without a Host header", async () => {
    const port = await freePort();
    const started = deferred();
    const loop = new StepLoop("work", async ({ sleep }) => {
      started.resolve();
      await sleep(60_000);
    });
    const group = new LoopGroup([loop], { ...LOCAL, healthPort: port });
    const run = group.run({ installSignals: false });
    await started.promise;
    for (const path of ["/health/live", "/health/ready"]) {
      await using client = await Client.to(port, `GET ${path} HTTP/1.0\r\n\r\n`);
      assertMatch(await client.ended(), /^HTTP\/1\.[01] 200 OK\r\n/, path);
    }
    await group.shutdown();
    await run;
  });

  it("a group does not start when its healthPort is taken, and the error names the address", async () => {
    const port = await freePort();
    const make = (name: string) =>
      new LoopGroup([new StepLoop(name, ({ sleep }) => sleep(60_000))], {
        ...LOCAL,
        healthPort: port,
      });
    await using first = make("first");
    const run = first.run({ installSignals: false });
    while ((first.health().phase) !== "running") await new Promise((done) => setTimeout(done, 5));
    await assertRejects(
      () => make("second").run({ installSignals: false }),
      Error,
      `Cannot listen on 127.0.0.1:${port}`,
    );
    await first.shutdown();
    await run;
  });

  it("a group with a healthPort does not start when the runtime cannot serve HTTP", async () => {
    const loop = new StepLoop("loop", () => {});
    const group = new LoopGroup([loop], { ...LOCAL, healthPort: 0, runtime: new FakeRuntime() });
    await assertRejects(() => group.run(), Error, "cannot serve HTTP");
  });

  it("LoopGroup refuses an invalid healthPort", () => {
    for (const healthPort of [-1, 1.5, 65_536, NaN]) {
      assertThrows(() => new LoopGroup([], { healthPort }), RangeError, "healthPort");
    }
  });
});
