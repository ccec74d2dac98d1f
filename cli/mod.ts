/**
 * The `lastcall` command: `deno run -A jsr:@lastcall/lastcall/cli`, `npx lastcall`, `bunx lastcall`.
 *
 * @module
 */

import process from "node:process";
import { main } from "./main.ts";

export { main };
export type { Io, Sink } from "./_io.ts";

// npm starts bin.ts instead: Node 20 has no `import.meta.main`. No top-level await here, because
// Node cannot `require` a module that has one.
if (import.meta.main) void main(process.argv.slice(2)).then((code) => process.exit(code));
