// Installs the devDependencies if they are missing or older than the lock file. This is JavaScript,
// because only Node 20 may be available before the first install.

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
  if (error) console.error(`npm ci failed: ${error.message}`);
  process.exitCode = status ?? 1;
}

/** @param {string} name */
function modified(name) {
  return statSync(`${root}/${name}`, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
