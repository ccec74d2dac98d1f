// Builds the npm package into dist/: JavaScript by esbuild, declarations by tsc.
//
// dist/ has the layout of the sources (dist/mod.js beside dist/mod.d.ts), so the entry points of
// deno.json are the only list. @std is inlined, so npm users get no dependency.

import { build, type Plugin, transform } from "esbuild";
import { globSync } from "node:fs";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative } from "node:path";
import process from "node:process";
import { run } from "./process.ts";
import { root, tool } from "./runtimes.ts";

interface Manifest {
  readonly name: string;
  readonly exports: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

/** Threads load these by URL, so each stays a file with its path. */
const THREAD_MODULES = ["src/lease/_lease_thread_main.ts"];

/** The program that npm links as `lastcall`. */
const BIN = "cli/bin.ts";

const dist = join(root, "dist");
const jsr = await readManifest("deno.json");
const npm = await readManifest("package.json");
const notice =
  "Includes parts of @std/async, copyright 2018-2026 the Deno authors, of eventsource-parser,\n" +
  "copyright 2026 Espen Hovlandsdal, of commander, copyright 2011 TJ Holowaychuk, and in its live\n" +
  "page of Preact, copyright 2015-present Jason Miller; MIT licenses all: the terms are those of the\n" +
  "LICENSE file.\n";
/** A bundler must not see this package, because a bundle cannot contain its native binary. */
const NATIVE_PEER = "better-sqlite3";

/** Imports of optional packages in declarations. They get `any` where the package is missing. */
const PEER_IMPORT = /^(?:import|export) [^;]* from "(?![.]|node:)[^"]+";$/gm;

const RELATIVE_IMPORT = /(?:from|import)\s*\(?\s*"(\.[^"]*)"/g;
const peers = Object.keys(npm.peerDependencies ?? {});

/**
 * Makes the imports of optional packages visible to the bundlers of npm users, which then include the
 * installed ones. The sources hide the names in a variable, because JSR would make each literal import
 * a dependency of all users. A CommonJS package may fail in a bundle of ES modules, by its `require`;
 * then the second import loads it at run time.
 */
function withVisiblePeer(text: string): string {
  const [, name = ""] = /^const MODULE: string = "(.+)";$/m.exec(text) ?? [];
  if (!peers.includes(name) || name === NATIVE_PEER) return text;
  const otherwise = "(error) => import(MODULE).catch(() => { throw error; })";
  return text.replace("import(MODULE)", `import("${name}").catch(${otherwise})`);
}

/** Comment lines of Lua and SQL; those that a script is assembled by stay. */
const SCRIPT_COMMENT = /^ *-- (?!rarely \{|\}).*\n(?=[^\n])/gm;

/**
 * Removes comments, which the declarations have. esbuild keeps those of class members, and has no option for
 * that: it drops them with the white space, and formats the code when it writes the bundle.
 */
async function withoutComments(text: string, loader: "ts" | "js"): Promise<string> {
  const { code } = await transform(text.replace(SCRIPT_COMMENT, ""), {
    loader,
    minifyWhitespace: true,
    target: "esnext",
  });
  return code;
}

const sources: Plugin = {
  name: "sources",
  setup({ onLoad }) {
    onLoad({ filter: /\.[jt]s$/ }, async ({ path }) => {
      const loader = path.endsWith(".ts") ? "ts" : "js";
      const text = withVisiblePeer(await readFile(path, "utf8"));
      return { contents: await withoutComments(text, loader), loader: "js" };
    });
  },
};

await rm(dist, { recursive: true, force: true });
await bundle();
await declare();
await wrapForCommonJs();
console.log(`built dist/ with ${Object.keys(jsr.exports).length} entry points`);

async function bundle(): Promise<void> {
  const { outputFiles, metafile } = await build({
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
    plugins: [sources],
    external: ["node:*", ...peers],
    logLevel: "warning",
    metafile: true,
    write: false,
  });
  for (const { path, text } of outputFiles) {
    const { inputs = {} } = metafile.outputs[relative(root, path)] ?? {};
    const isCommand = Object.keys(inputs).some((input) => input.startsWith("cli/"));
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, isCommand ? await minified(text) : restoreClassNames(text));
  }
  await writeFile(join(dist, "NOTICE"), notice);
}

/** Minifies the command: it is a fifth of the package, and no program imports its parts. */
async function minified(text: string): Promise<string> {
  const { code } = await transform(text, { minify: true, target: ["es2022", "node20"] });
  return code;
}

/**
 * Restores the names of classes. esbuild turns a class `A` that refers to itself into
 * `var A = class _A`, and `_A` would appear in logs. Its option `keepNames` costs a call per closure.
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

/** Returns the declarations that the entry points import. The others are private and removed. */
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

/** Replaces `.ts` by `.js` in the specifiers, which tsc does not do in declarations. */
async function finishDeclaration(name: string): Promise<void> {
  const path = join(dist, name);
  const text = (await readFile(path, "utf8"))
    .replace(/((?:from|import)\s*\(?\s*")(\.[^"]*)\.ts"/g, '$1$2.js"')
    // Examples in comments import the package by its JSR name.
    .replaceAll(`"${jsr.name}`, `"${npm.name}`);
  for (const [, specifier = ""] of text.matchAll(/(?:from|import)\s*\(?\s*"([^".][^"]*)"/g)) {
    const known = [npm.name, ...peers].some((it) =>
      specifier === it || specifier.startsWith(`${it}/`)
    );
    if (!known && !specifier.startsWith("node:")) {
      throw new Error(
        `dist/${name} imports types of "${specifier}", which is not a dependency of the npm package`,
      );
    }
  }
  await writeFile(path, text.replace(PEER_IMPORT, "// @ts-ignore the package is optional\n$&"));
}

/**
 * Writes wrappers for `require`. They load the ES modules, because two copies of the package in a
 * process would not share their state.
 */
async function wrapForCommonJs(): Promise<void> {
  for (const entry of Object.values(jsr.exports)) {
    const path = join(dist, entry.replace(/\.ts$/, ""));
    const module = JSON.stringify(`./${basename(path)}.js`);
    await writeFile(`${path}.cjs`, `module.exports = require(${module});\n`);
    // TypeScript with `module: node16` does not know that Node can require ES modules.
    await writeFile(`${path}.d.cts`, `// @ts-ignore TS1479\nexport * from ${module};\n`);
  }
}

async function readManifest(name: string): Promise<Manifest> {
  return JSON.parse(await readFile(join(root, name), "utf8"));
}
