/**
 * 1. A single loop. It repeats a step until it is told to stop.
 *
 *     node examples/01_single_loop.ts
 *
 * Press Ctrl+C while an order is being packed: the loop finishes the order. Press it during `sleep`: the
 * loop stops immediately. `echo $?` prints 0 in both cases.
 */

import { LoopGroup, StepLoop, systemClock } from "../mod.ts";

const orders = new StepLoop("orders", async ({ iteration, sleep, stopping }) => {
  console.log(`order ${iteration}: packing`);
  await systemClock.sleep(600); // work: a stop waits for it
  console.log(`order ${iteration}: packed${stopping.aborted ? ", and that was the last one" : ""}`);
  await sleep(1_000); // idle: a stop does not wait for it
});

console.log("Press Ctrl+C for the last call.");

// The group listens to SIGTERM and Ctrl+C and limits the time of the stop. `main()` ends the process with
// an exit code: 0 drained, 1 failed, 124 timed out, 128 + n forced by a second signal.
await new LoopGroup([orders], { shutdownTimeoutMs: 10_000 }).main();
