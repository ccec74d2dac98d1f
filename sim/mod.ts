import * as fc from "fast-check";
import { scenarios } from "./scenario.ts";
import { simulate } from "./simulation.ts";
import process from "node:process";
const from = Number(process.argv[2] ?? 1), n = Number(process.argv[3] ?? 100);
const t = performance.now();
let h = 0, steps = 0, sim = 0, viol = new Map<string, number[]>();
for (let seed = from; seed < from + n; seed++) {
  const [scenario] = fc.sample(scenarios, { seed, numRuns: 1 });
  const r = await simulate(scenario!);
  steps += r.steps;
  h = (h * 31 + parseInt(r.hash.slice(0, 8), 16)) % 2 ** 40;
  sim += r.simulatedMs;
  if (n === 1) {
    console.log(String(r.timeline));
    console.log(JSON.stringify(scenario));
    console.log(r.hash);
  }
  if (r.violation) {
    const l = viol.get(r.violation.rule) ?? [];
    l.push(seed);
    viol.set(r.violation.rule, l);
  }
}
const ms = performance.now() - t;
console.log(h, n, "seeds", steps, "steps", Math.round(ms), "ms", (sim / ms).toFixed(0) + "x");
for (const [k, v] of viol) console.log(k, v.length, v.slice(0, 10).join(" "));
