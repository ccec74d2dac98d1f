// Installs the devDependencies when they are missing or older than the lock file, and is quick
// otherwise. Plain JavaScript: before the first install there may be nothing newer than Node 20.

import { spawnSync } from "node:child_process";
import { statSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

// npm writes this file at the end of every install.
if (modified("node_modules/.package-lock.json") < modified("package-lock.json")) {
  console.log("installing the devDependencies, Deno, Bun and Node among them (about 400 MB, once)");
  const npm = process.env.npm_execpath;
  const { status, error } = spawnSync(
    npm ? process.execPath : "npm",
    [...(npm ? [npm] : []), "ci", "--no-audit", "--no-fund", "--loglevel=error"],
    { cwd: root, stdio: "inherit", timeout: 600_000 },
  );
  if (error) console.error(`npm ci did not run to its end: ${error.message}`);
  process.exitCode = status ?? 1;
}

/** @param {string} name */
function modified(name) {
  return statSync(`${root}/${name}`, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
