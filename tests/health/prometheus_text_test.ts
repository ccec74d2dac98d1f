import { describe, it } from "node:test";
import fc from "fast-check";
import { Counter, Gauge, Registry } from "prom-client";
import { assertEquals } from "@std/assert";
import { PROMETHEUS_TYPE } from "../../src/health/_metrics.ts";
import type { Metric } from "../../src/health/mod.ts";
import { seed } from "../_seed.ts";
import { Fixture } from "./_fixture.ts";

/** Returns the text that `prom-client` writes for the same metrics. */
async function written(metrics: readonly Metric[]): Promise<string> {
  const registry = new Registry();
  for (const { name, help, type, samples } of metrics) {
    const labelNames = Object.keys(samples[0]?.labels ?? {});
    const options = { name, help, labelNames, registers: [registry] };
    const metric = type === "counter" ? new Counter(options) : new Gauge(options);
    for (const { labels = {}, value } of samples) metric.inc({ ...labels }, value);
  }
  assertEquals(PROMETHEUS_TYPE, registry.contentType);
  return await registry.metrics();
}

/** Returns the text of these metrics in the response of `/metrics`. */
async function shown(metrics: readonly Metric[], log: string[] = []): Promise<string> {
  const app = new Fixture().app({
    metrics: [{ metrics: () => metrics }],
    log: {
      debug() {},
      info() {},
      warn: (text, properties) => void log.push(`${text}: ${properties?.["error"]}`),
      error() {},
    },
  });
  const text = await (await app.request("/metrics")).text();
  const [first] = metrics;
  return first === undefined ? text : text.slice(text.indexOf(`# HELP ${first.name} `));
}

const text = fc.string({ unit: fc.constantFrom("a", "ü", "\\", '"', "\n", " ", "{", "}", ",") });
const value = fc.oneof(fc.nat(), fc.double({ min: 0, noNaN: true, noDefaultInfinity: true }));
const metric = fc.record({
  help: text.map((it) => `${it}.`),
  type: fc.constantFrom("counter" as const, "gauge" as const),
  samples: fc.oneof(
    fc.tuple(fc.record({ value })),
    fc.uniqueArray(fc.tuple(text, text), { minLength: 1, maxLength: 4, selector: String })
      .chain((all) =>
        fc.tuple(...all.map(([a, b]) => value.map((value) => ({ labels: { a, b }, value }))))
      ),
  ),
});

describe("/metrics", () => {
  it(`/metrics writes the same text as prom-client (seed ${seed})`, async () => {
    const property = fc.asyncProperty(fc.array(metric, { maxLength: 4 }), async (all) => {
      const metrics: Metric[] = all.map((it, i) => ({ ...it, name: `kitchen_${i}_total` }));
      if (metrics.length > 0) assertEquals(await shown(metrics), await written(metrics));
    });
    await fc.assert(property, { seed });
  });

  it("/metrics writes each name and each combination of labels once", async () => {
    const of = (cook: string, value: number): Metric => ({
      name: "kitchen_burnt_total",
      help: "Burnt.",
      type: "counter",
      samples: [{ labels: { cook }, value }],
    });
    assertEquals(
      await shown([of("ada", 1), of("bob", 2), of("ada", 4)]),
      "# HELP kitchen_burnt_total Burnt.\n# TYPE kitchen_burnt_total counter\n" +
        'kitchen_burnt_total{cook="ada"} 5\nkitchen_burnt_total{cook="bob"} 2\n',
    );
  });

  it("/metrics leaves out and logs a source with names that Prometheus refuses", async () => {
    for (
      const bad of [{ name: "burnt dishes" }, {
        samples: [{ labels: { "the-cook": "ada" }, value: 1 }],
      }]
    ) {
      const log: string[] = [];
      const metric: Metric = { name: "burnt", help: "Burnt.", type: "gauge", samples: [], ...bad };
      assertEquals((await shown([metric], log)).includes("burnt"), false);
      assertEquals(log.length, 1);
    }
  });
});
