// A thread of the pool: explores the seeds that it is sent.

import { parentPort } from "node:worker_threads";
import { explore } from "./explore.ts";
import type { Seeds } from "./pool.ts";

Error.stackTraceLimit = 0; // many calls fail, and each error would collect its stack

parentPort!.on("message", async ({ first, count }: Seeds) => {
  parentPort!.postMessage(await explore(first, count));
});
