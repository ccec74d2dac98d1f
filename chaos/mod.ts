// `npm run chaos`: worker processes on all three runtimes, one engine, and faults.

import process from "node:process";
import { problemsOf, textOf } from "./_result.ts";
import { HELP, parseOptions } from "./options.ts";
import { runChaos, runRolling } from "./run.ts";

// Workers and servers end with this process, so an interrupted run leaves nothing running.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

const args = process.argv.slice(2);
if (args.includes("--help")) {
  console.log(HELP);
} else {
  const options = await parseOptions(args);
  const result = await (options.rolling ? runRolling(options) : runChaos(options));
  console.log(textOf(result));
  process.exitCode = problemsOf(result).length > 0 ? 1 : 0;
}
