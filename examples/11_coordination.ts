/**
 * 11. Coordination: members that stop together and lose no message. Messages go through their inboxes.
 * Notices of a stop go through the board, so that the peers know before they send.
 *
 *     node examples/11_coordination.ts
 *
 * It ends by itself.
 */

import {
  Board,
  Bus,
  shutdownAllCoordinated,
  shutdownWithCoordination,
} from "../src/coordination/mod.ts";

await using board = new Board(); // or openDirectoryBoard, openRedisBoard, openPostgresBoard
await using bus = new Bus({ board });

const memberOptions = (id: string) => ({
  id,
  handlers: { task: ({ payload }: { payload: unknown }) => console.log(`${id} did`, payload) },
  onNotification: ({ payload }: { payload: { shutting_down_agent: string } }) =>
    console.log(`${id} heard that ${payload.shutting_down_agent} is stopping`),
});
const [first, ...others] = await bus.enrolAll(
  ["worker-1", "worker-2", "worker-3", "worker-4"].map(memberOptions),
);
const sender = await bus.enrol({ id: "sender" });

// One member stops: its inbox is drained.
for (const id of [1, 2]) await bus.send(sender, "worker-1", "task", { id });
const report = await shutdownWithCoordination(first!, { timeoutMs: 10_000 });
for (const { name, outcome, durationMs } of report.steps) {
  console.log(`  ${name.padEnd(16)} ${outcome.padEnd(8)} ${durationMs.toFixed(1)} ms`);
}
console.log(report.complete ? "complete" : "incomplete", "with", report.left, "messages left");

// A later send stores nothing and returns the outcome.
const { outcome } = await bus.send(sender, "worker-1", "task", { id: 3 });
console.log("worker-1 is", outcome);

// The others stop together: the remaining peers are notified once.
const reports = await shutdownAllCoordinated(others, { timeoutMs: 5_000 });
console.log(reports.filter(({ complete }) => complete).length, "stopped completely");
for (const { agentId, status } of await board.list()) console.log(`  ${agentId} ${status}`);
