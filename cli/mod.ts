/**
 * The `lastcall` command: `deno run -A jsr:@lastcall/lastcall/cli`, `npx lastcall`, `bunx lastcall`.
 *
 * @module
 */

import process from "node:process";
import { main } from "./main.ts";

export { main };
export type { Io, Sink } from "./_io.ts";

// npm's `bin` starts bin.ts instead, since Node 20 does not know which module is the main one. Without
// a top-level await, which `require` of Node refuses.
if (import.meta.main) void main(process.argv.slice(2)).then((code) => process.exit(code));
