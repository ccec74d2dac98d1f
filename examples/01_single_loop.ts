/**
 * 1. A single loop. It does one step after another until it is told to stop.
 *
 *     node examples/01_single_loop.ts
 *
 * Press Ctrl+C while an order is being packed: it is packed to the end. Press it during the pause: the
 * pause ends at once. `echo $?` says 0 either way, because nothing was cut off.
 */

import { LoopGroup, StepLoop, systemClock } from "../mod.ts";

const orders = new StepLoop("orders", async ({ iteration, sleep, stopping }) => {
  console.log(`order ${iteration}: packing`);
  await systemClock.sleep(600); // work: a stop waits for it
  console.log(`order ${iteration}: packed${stopping.aborted ? ", and that was the last one" : ""}`);
  await sleep(1_000); // rest: a stop does not wait for it
});

console.log("Press Ctrl+C for the last call.");

// A group listens to SIGTERM and Ctrl+C, and bounds the stop. `main()` ends the process with an exit code
// that tells how it went: 0 drained, 1 failed, 124 out of time, 128 + n forced by a second signal.
await new LoopGroup([orders], { shutdownTimeoutMs: 10_000 }).main();
