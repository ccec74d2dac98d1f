// `npm run chaos`: worker processes on all three runtimes, one engine, and trouble.

import process from "node:process";
import { HELP, parseOptions } from "./options.ts";
import { problemsOf, textOf } from "./_result.ts";
import { runRolling } from "./rolling.ts";
import { runChaos } from "./run.ts";

// An interrupted run leaves nothing running: what was started here ends with this process.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

const args = process.argv.slice(2);
if (args.includes("--help")) {
  console.log(HELP);
} else {
  const options = parseOptions(args);
  const result = await (options.rolling ? runRolling(options) : runChaos(options));
  console.log(textOf(result));
  process.exitCode = problemsOf(result).length > 0 ? 1 : 0;
}
