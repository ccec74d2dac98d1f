import { describe, it } from "node:test";
import fc from "fast-check";
import { Histogram, Registry } from "prom-client";
import { assertEquals } from "@std/assert";
import { LoopGroup } from "../../src/group/loop_group.ts";
import { prometheusText } from "../../src/health/_metrics.ts";
import { healthApp } from "../../src/health/mod.ts";
import { silentLog } from "../../src/log.ts";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { DurationHistogram } from "../../src/telemetry/duration_histogram.ts";
import { DURATION_BOUNDARIES_S, metric } from "../../src/telemetry/metrics.ts";
import { FakeRuntime, VirtualClock } from "../../src/testing/mod.ts";
import { seed } from "../_seed.ts";

const NAME = "lastcall_message_duration_seconds";

/** A group with one loop, whose handler takes as long as the body says. */
function cooking(options: { readonly concurrency: number; readonly prefetch?: number }) {
  const clock = new VirtualClock();
  const mailbox = new InMemoryMailbox<number>("orders", { clock });
  const loop = new MailboxLoop<number>({
    ...{ mailbox, clock, log: silentLog, deadLetter: { maxDeliveries: 1 } },
    ...options,
    handler: async ({ body }) => {
      await clock.sleep(Math.abs(body));
      if (body < 0) throw new Error("burnt");
    },
  });
  const group = new LoopGroup([loop], { clock, runtime: new FakeRuntime(), log: silentLog });
  const app = healthApp(group, { clock, log: silentLog });
  return {
    mailbox,
    run: () => clock.until(group.run({ untilEmpty: true })),
    /** Returns the counts of the buckets up to these bounds in seconds, the sum and the count. */
    async read(...bounds: readonly string[]): Promise<readonly number[]> {
      const text = await (await app.request("/metrics")).text();
      const value = (sample: string) => {
        const line = text.split("\n").find((line) => line.startsWith(`${NAME}${sample} `));
        return Number(line?.split(" ").at(-1));
      };
      return [
        ...bounds.map((le) => value(`_bucket{le="${le}",loop="orders"}`)),
        value('_sum{loop="orders"}'),
        value('_count{loop="orders"}'),
      ];
    },
  };
}

describe("the durations of messages", () => {
  it("/metrics has a histogram of the durations of a loop, with zeros before its first message", async () => {
    const { read } = cooking({ concurrency: 1 });
    assertEquals(await read("0.005", "300", "+Inf"), [0, 0, 0, 0, 0]);
  });

  it("/metrics counts durations in cumulative buckets, also of failed messages and of earlier runs", async () => {
    const { mailbox, run, read } = cooking({ concurrency: 3 });
    await mailbox.sendMany([2, 40, -700]);
    await run();
    const bounds = ["0.005", "0.025", "0.05", "0.5", "0.75", "300", "+Inf"];
    assertEquals(await read(...bounds), [1, 1, 2, 2, 3, 3, 3, 0.742, 3]);
    await mailbox.send(400_000);
    await run();
    assertEquals(await read(...bounds), [1, 1, 2, 2, 3, 3, 4, 400.742, 4]);
  });

  it("the duration of a message does not include the time that it waits in the loop", async () => {
    const { mailbox, run, read } = cooking({ concurrency: 1, prefetch: 10 });
    await mailbox.sendMany([1_000, 1_000, 1_000, 1_000]);
    await run();
    assertEquals(await read("0.75", "1", "+Inf"), [0, 4, 4, 4, 4]);
  });

  it(`a histogram of durations has the same text as that of prom-client (seed ${seed})`, async () => {
    const durations = fc.array(fc.nat({ max: 400_000 }), { maxLength: 20 });
    const property = fc.asyncProperty(durations, fc.string(), async (all, loop) => {
      const registry = new Registry();
      const theirs = new Histogram({
        ...{ name: NAME, help: "Time that handlers spent on messages", labelNames: ["loop"] },
        ...{ buckets: [...DURATION_BOUNDARIES_S], registers: [registry] },
      });
      const own = new DurationHistogram();
      theirs.zero({ loop });
      for (const ms of all) {
        own.record(ms);
        theirs.observe({ loop }, ms / 1_000);
      }
      // The sum of seconds has other rounding errors than the sum of milliseconds.
      const sum = new RegExp(`(${NAME}_sum.*) .*`);
      const rounded = (text: string) =>
        text.replace(
          sum,
          (line, labels) => `${labels} ${Number(line.split(" ").at(-1)).toFixed(6)}`,
        );
      assertEquals(
        rounded(prometheusText([metric(NAME, own.samples({ loop }))])),
        rounded(await registry.metrics()),
      );
    });
    await fc.assert(property, { seed });
  });
});
