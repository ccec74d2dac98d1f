// What the simulator prints.

import type { Reduced, Totals } from "./explore.ts";
import type { Scenario } from "./scenario.ts";

/** Returns a line with what many simulations were like. */
export function totalsText({ seeds, steps, simulatedMs, faults }: Totals, ms: number): string {
  const hours = (simulatedMs / 3_600_000).toFixed(1);
  const times = Math.round(simulatedMs / ms).toLocaleString("en");
  return `${seeds} seeds, ${
    steps.toLocaleString("en")
  } steps, ${faults} faults, ${hours} simulated ` +
    `hours in ${(ms / 1_000).toFixed(1)} s: ${times} × real time`;
}

/** Returns a failure for its reader: the rule, the scenario, the timeline, and how to repeat it. */
export function failureText(seed: number, { scenario, result, reductions }: Reduced): string {
  return [
    `seed ${seed} breaks a rule: ${result.violation?.message ?? "not any more"}`,
    `the smallest scenario found in ${reductions} reductions:`,
    ...scenarioLines(scenario).map((line) => `  ${line}`),
    "what happens in it:",
    String(result.timeline),
    `repeat it with: npm run sim -- --seed ${seed}`,
  ].join("\n");
}

/** Describes a scenario, a line for each process, message and fault. */
export function scenarioLines(scenario: Scenario): readonly string[] {
  const { workers, messages, tasks, faults, latencyMs, deployMs, handsOver } = scenario;
  return [
    `latency up to ${latencyMs} ms, a deploy every ${deployMs} ms${handsOver ? ", handovers" : ""}`,
    ...workers.map((it, i) => `process w${i + 1}: ${fieldsOf(it)}`),
    ...messages.map((it, i) => `message m${i + 1}: ${fieldsOf(it)}`),
    ...tasks.map((it) => `task: ${fieldsOf(it)}`),
    ...faults.map((it) => `fault: ${fieldsOf(it)}`),
  ];
}

/** Leaves out what is nothing. */
function fieldsOf(record: object): string {
  const fields = Object.entries(record).filter(([, value]) => {
    return value !== null && value !== 0 && value !== false;
  });
  return fields.map(([name, value]) => `${name} ${value}`).join(", ");
}
