/**
 * The `lastcall` command: `deno run -A jsr:@lastcall/lastcall/cli`, `npx lastcall`, `bunx lastcall`.
 *
 * @module
 */

import process from "node:process";
import { main } from "./main.ts";

export { main };
export type { Io, Sink } from "./_io.ts";

// npm's `bin` starts bin.ts instead, since Node 20 does not know which module is the main one.
if (import.meta.main) process.exit(await main(process.argv.slice(2)));
