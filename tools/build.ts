// Builds the npm package into dist/: JavaScript by esbuild, declarations by tsc.
//
// The layout repeats the sources' (dist/mod.js beside dist/mod.d.ts), so the entry points of
// deno.json are the only list. What is used of @std is inlined: npm users get no dependency.

import { build } from "esbuild";
import { globSync } from "node:fs";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import process from "node:process";
import { run } from "./process.ts";
import { root, tool } from "./runtimes.ts";

interface Manifest {
  readonly name: string;
  readonly exports: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

/** A thread loads these by their address, so each stays a file of its own at its place. */
const THREAD_MODULES = ["src/lease/_keeper_thread.ts", "src/engines/*/_lease_keeping.ts"];

const dist = join(root, "dist");
const jsr = await readManifest("deno.json");
const npm = await readManifest("package.json");
const notice =
  "Includes parts of @std/async, copyright 2018-2026 the Deno authors, of eventsource-parser,\n" +
  "copyright 2026 Espen Hovlandsdal, and in its live page of Preact, copyright 2015-present Jason\n" +
  "Miller; MIT licenses all: the terms are those of the LICENSE file.\n";
const peers = Object.keys(npm.peerDependencies ?? {});

await rm(dist, { recursive: true, force: true });
await bundle();
await declare();
console.log(`built dist/ with ${Object.keys(jsr.exports).length} entry points`);

async function bundle(): Promise<void> {
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: [...Object.values(jsr.exports), ...globSync(THREAD_MODULES, { cwd: root })],
    outdir: dist,
    outbase: root,
    bundle: true,
    splitting: true,
    chunkNames: "chunks/[name]-[hash]",
    format: "esm",
    platform: "neutral",
    target: ["es2022", "node20"],
    sourcemap: true,
    external: ["node:*", ...peers],
    logLevel: "warning",
    write: false,
  });
  for (const { path, text } of outputFiles) {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, path.endsWith(".js") ? restoreClassNames(text) : text);
  }
  await writeFile(join(dist, "NOTICE"), notice);
}

/**
 * Bundling turns a class `A` that mentions itself into `var A = class _A`, and `_A` would be the
 * name in people's logs. esbuild's own remedy, keepNames, costs a call for every closure made.
 */
function restoreClassNames(text: string): string {
  const renamed = [...text.matchAll(/^var (\w+) = class _\1\b/gm)].map(([, name = ""]) => name);
  return renamed.reduce((out, name) => out.replace(new RegExp(`\\b_${name}\\b`, "g"), name), text);
}

async function declare(): Promise<void> {
  const { code, output } = await run(tool("tsc"), ["-p", "tsconfig.build.json"]);
  if (code !== 0) {
    console.error(output);
    process.exit(code);
  }
  for (const name of await readdir(dist, { recursive: true })) {
    if (name.endsWith(".d.ts")) await finishDeclaration(name);
  }
}

/** tsc keeps `.ts` in the specifiers of declarations; what npm users have is `.js`. */
async function finishDeclaration(name: string): Promise<void> {
  const path = join(dist, name);
  const text = (await readFile(path, "utf8"))
    .replace(/((?:from|import)\s*\(?\s*")(\.[^"]*)\.ts"/g, '$1$2.js"')
    // Examples in the comments import the package by the name it has on JSR.
    .replaceAll(`"${jsr.name}`, `"${npm.name}`);
  for (const [, specifier = ""] of text.matchAll(/(?:from|import)\s*\(?\s*"([^".][^"]*)"/g)) {
    const known = [npm.name, ...peers].some((it) =>
      specifier === it || specifier.startsWith(`${it}/`)
    );
    if (!known && !specifier.startsWith("node:")) {
      throw new Error(`dist/${name} imports the types of "${specifier}", which npm users lack`);
    }
  }
  await writeFile(path, text);
}

async function readManifest(name: string): Promise<Manifest> {
  return JSON.parse(await readFile(join(root, name), "utf8"));
}
