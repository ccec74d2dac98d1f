#!/usr/bin/env bun
/**
 * 12. A script that can be interrupted. It reads a file line by line. Ctrl+C finishes the current line, and
 * the next start continues from there. It needs only a group.
 *
 *     ./examples/12_bun_script.ts README.md
 *     bun examples/12_bun_script.ts README.md
 *
 * The first line makes it a Bun script. Node and Deno run it as well.
 */

import { readFile, rename, rm, writeFile } from "node:fs/promises";
import process from "node:process";
import { LoopGroup, StepLoop, systemClock } from "../mod.ts";

const [path] = process.argv.slice(2);
if (path === undefined) {
  console.error("Which file? For example: bun examples/12_bun_script.ts README.md");
  process.exit(2);
}
const bookmark = `${path}.bookmark`;
const lines = (await readFile(path, "utf8")).trimEnd().split("\n");
let next = await readBookmark();
if (next > 0) console.log(`going on at line ${next + 1} of ${lines.length}`);

const words = new StepLoop("words", async () => {
  const line = lines[next];
  if (line === undefined) return false; // at the end of the file the loop ends
  await systemClock.sleep(40); // stands for the work on one line
  next++;
  console.log(`${next}: ${line.split(/\s+/).filter(Boolean).length} words`);
});

// `run()` instead of `main()`, because the script continues after the loop has ended.
const report = await new LoopGroup([words], { shutdownTimeoutMs: 5_000 }).run();
if (next < lines.length) {
  await writeBookmark();
  console.log(`stopped after line ${next}; start it again to go on`);
} else {
  await rm(bookmark, { force: true });
  console.log(`all ${lines.length} lines are done`);
}
process.exitCode = report.exitCode;

async function readBookmark(): Promise<number> {
  try {
    return Number(await readFile(bookmark, "utf8"));
  } catch {
    return 0; // no bookmark yet: start at the beginning
  }
}

/** Writes to a temporary file first, so that a crash leaves the old bookmark intact. */
async function writeBookmark(): Promise<void> {
  await writeFile(`${bookmark}.new`, String(next));
  await rename(`${bookmark}.new`, bookmark);
}
