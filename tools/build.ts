// Builds the npm package into dist/: JavaScript by esbuild, declarations by tsc.
//
// The layout repeats the sources' (dist/mod.js beside dist/mod.d.ts), so the entry points of
// deno.json are the only list. What is used of @std is inlined: npm users get no dependency.

import { build, type Plugin } from "esbuild";
import { globSync } from "node:fs";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import process from "node:process";
import { run } from "./process.ts";
import { root, tool } from "./runtimes.ts";

interface Manifest {
  readonly name: string;
  readonly exports: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

/** A thread loads these by their address, so each stays a file of its own at its place. */
const THREAD_MODULES = ["src/lease/_lease_thread_main.ts", "src/engines/*/_lease_keeping.ts"];

/** What npm starts by name. */
const BIN = "cli/bin.ts";

const dist = join(root, "dist");
const jsr = await readManifest("deno.json");
const npm = await readManifest("package.json");
const notice =
  "Includes parts of @std/async, copyright 2018-2026 the Deno authors, of eventsource-parser,\n" +
  "copyright 2026 Espen Hovlandsdal, of commander, copyright 2011 TJ Holowaychuk, and in its live\n" +
  "page of Preact, copyright 2015-present Jason Miller; MIT licenses all: the terms are those of the\n" +
  "LICENSE file.\n";
/** Its binary cannot be part of a bundle: a bundler must not see the package. */
const NATIVE_PEER = "better-sqlite3";

/** In declarations: where the package is missing, what comes from it has the type `any`. */
const PEER_IMPORT = /^import [^;]* from "(?![.]|node:)[^"]+";$/gm;

const RELATIVE_IMPORT = /(?:from|import)\s*\(?\s*"(\.[^"]*)"/g;
const peers = Object.keys(npm.peerDependencies ?? {});

/**
 * The sources load a client by a name that no tool can see, or JSR would make it a dependency of all
 * users. Bundlers of npm users must see the name: then they include what is installed. A CommonJS
 * package may fail in a bundle of ES modules, by its `require`; then it is looked for at run time.
 */
const visiblePeers: Plugin = {
  name: "visible peers",
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, async ({ path }) => {
      const contents = await readFile(path, "utf8");
      const [, name = ""] = /^const MODULE: string = "(.+)";$/m.exec(contents) ?? [];
      if (!peers.includes(name) || name === NATIVE_PEER) return undefined;
      const otherwise = "(error) => import(MODULE).catch(() => { throw error; })";
      const visible = `import("${name}").catch(${otherwise})`;
      return { contents: contents.replace("import(MODULE)", visible), loader: "ts" };
    });
  },
};

await rm(dist, { recursive: true, force: true });
await bundle();
await declare();
await wrapForCommonJs();
console.log(`built dist/ with ${Object.keys(jsr.exports).length} entry points`);

async function bundle(): Promise<void> {
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: [...Object.values(jsr.exports), BIN, ...globSync(THREAD_MODULES, { cwd: root })],
    outdir: dist,
    outbase: root,
    bundle: true,
    splitting: true,
    chunkNames: "chunks/[name]-[hash]",
    format: "esm",
    platform: "neutral",
    target: ["es2022", "node20"],
    plugins: [visiblePeers],
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
  const needed = await reachableDeclarations();
  for (const name of await readdir(dist, { recursive: true })) {
    if (!name.endsWith(".d.ts")) continue;
    if (needed.has(join(dist, name))) await finishDeclaration(name);
    else await rm(join(dist, name));
  }
}

/** What the entry points lead to. The rest is nobody's business, as how a command is made. */
async function reachableDeclarations(): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  const visit = async (path: string): Promise<void> => {
    if (found.has(path)) return;
    found.add(path);
    for (const [, specifier = ""] of (await readFile(path, "utf8")).matchAll(RELATIVE_IMPORT)) {
      await visit(join(dirname(path), specifier.replace(/\.ts$/, ".d.ts")));
    }
  };
  for (const entry of Object.values(jsr.exports)) {
    await visit(join(dist, entry.replace(/\.ts$/, ".d.ts")));
  }
  return found;
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
  await writeFile(path, text.replace(PEER_IMPORT, "// @ts-ignore the package is optional\n$&"));
}

/**
 * For `require`, and for TypeScript that compiles to it. It loads the same modules: two copies of the
 * package would know nothing of each other's groups.
 */
async function wrapForCommonJs(): Promise<void> {
  for (const entry of Object.values(jsr.exports)) {
    const path = join(dist, entry.replace(/\.ts$/, ""));
    const module = JSON.stringify(`./${basename(path)}.js`);
    await writeFile(`${path}.cjs`, `module.exports = require(${module});\n`);
    // Under `module: node16` TypeScript does not know yet that Node can do this.
    await writeFile(`${path}.d.cts`, `// @ts-ignore TS1479\nexport * from ${module};\n`);
  }
}

async function readManifest(name: string): Promise<Manifest> {
  return JSON.parse(await readFile(join(root, name), "utf8"));
}
