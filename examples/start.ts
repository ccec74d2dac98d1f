/**
 * A group of three loops that shows how it is doing and stops well. Start it with `npm start`; end it
 * with Ctrl+C, or with `kill` from another terminal.
 */

import { LoopGroup, StepLoop } from "../mod.ts";

const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`;

/** Each order takes its time, and is finished even when the stop comes in the middle of it. */
const orders = new StepLoop("orders", async ({ iteration, stopping, pause }) => {
  const workMs = 1_500 + 500 * (iteration % 3);
  await new Promise((resolve) => setTimeout(resolve, workMs));
  console.log(`order ${iteration} packed${stopping.aborted ? ", although we are closing" : ""}`);
  await pause(300);
});

/** Nothing to do most of the time: it stops at once. */
const emails = new StepLoop("emails", async ({ iteration, pause }) => {
  console.log(`email round ${iteration}`);
  await pause(4_000);
});

/** Looks at the group once a second, and stops after the others. */
const health = new StepLoop("health", async ({ pause }) => {
  await pause(1_000);
  const { ready, phase, loops } = group.health();
  const busy = loops.filter(({ inFlight, name }) => inFlight > 0 && name !== "health");
  const work = busy.map(({ name, oldestMs }) => `${name} for ${seconds(oldestMs)}`);
  console.log(`  ${ready ? "ready" : "not ready"}, ${phase}; at work: ${work.join(", ") || "-"}`);
}, { priority: 1 });

const group = new LoopGroup([orders, emails, health], { shutdownTimeoutMs: 10_000 });
group.on("phase", ({ phase, reason }) => console.log(`> ${phase} (${reason})`));

console.log("Press Ctrl+C to stop.");
const report = await group.run();
console.log(`\n${report}`);
