// What the two registries would get, and what they would say to it. Nothing is sent.

import { existsSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { test } from "node:test";
import { assert, assertEquals, assertLess, assertMatch } from "@std/assert";
import { run } from "../../tools/process.ts";
import { root, runtimeBinary } from "../../tools/runtimes.ts";

const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

interface Packed {
  readonly size: number;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string }[];
}

/** What npm warns of on every machine that is not logged in, and of settings that are the machine's. */
const NOT_OURS = /requires you to be logged in|^npm warn (Unknown|invalid) \w+ config/;

// Not in a hook: when it fails it fails once. Built before, because npm looks for files first.
const build = await run(runtimeBinary("node"), ["tools/build.ts"]);
assertEquals(build.code, 0, build.output);
const npm = await run("npm", [
  ...["publish", "--dry-run", "--json"],
  ...["--offline", "--ignore-scripts"],
]);
assert(npm.code === 0, `npm publish --dry-run ended with code ${npm.code}:\n${npm.output}`);
const json = /^\{$[^]*?^\}$/m.exec(npm.output)?.[0] ?? "{}";
const packed: Packed = JSON.parse(json)[manifest.name];
const paths = packed.files.map(({ path }) => path);

test("npm prints no warning", () => {
  const warnings = npm.output.split("\n").filter((line) => /^npm (warn|error)/i.test(line));
  assertEquals(warnings.filter((line) => !NOT_OURS.test(line)), []);
});

test("the npm package contains the build and the documents", () => {
  const others = paths.filter((path) => !path.startsWith("dist/"));
  assertEquals(others.sort(), ["LICENSE", "README.md", "package.json"]);
  for (const path of paths.filter((it) => it.startsWith("dist/") && it !== "dist/NOTICE")) {
    assertMatch(path, /\.(d\.c?ts|c?js)$/);
  }
});

test("npm runs no script of the package when it is installed", () => {
  const run = Object.keys(manifest.scripts)
    .filter((name) => /^(pre|post)?(install|prepare|prepublish)$/.test(name));
  assertEquals(run, []);
});

test("the manifest says where the source is, and the README's links lead there", () => {
  const { repository, homepage, bugs } = manifest;
  const [, home = ""] = /^git\+(https:.+)\.git$/.exec(repository.url) ?? [];
  assertEquals([homepage, bugs.url], [`${home}#readme`, `${home}/issues`]);
  const text = readFileSync(join(root, "README.md"), "utf8");
  const targets = [...text.matchAll(/\]\(([^)]+)\)/g)].map(([, target = ""]) => target);
  assert(targets.length > 20);
  // The pages of JSR and npm know no files beside the README; images are shown from their raw address.
  const raw = home.replace("//github.com/", "//raw.githubusercontent.com/");
  for (const target of targets.filter((it) => !it.startsWith("#"))) {
    const path = target.replace(/#.*$/, "");
    const [, name] = new RegExp(`^(?:${home}/blob|${raw})/main/(.+)$`).exec(path) ?? [];
    assert(
      name && existsSync(join(root, name)),
      `${target} is not the address of a file in ${home}`,
    );
    assertEquals(path.startsWith(raw), /\.(svg|png)$/.test(path), target);
  }
});

test("sideEffects lists the modules with side effects", () => {
  const { sideEffects } = manifest;
  const entries = ["mod", "src/agents/mod", "src/evals/mod"];
  assertEquals(sideEffects, [
    ...entries.flatMap((entry) => [`./dist/${entry}.js`, `./dist/${entry}.cjs`]),
    ...["./dist/chunks/*.js", "./dist/cli/*"],
  ]);
});

test("the package contains no path of the machine that built it", () => {
  for (const path of paths) {
    assert(!readFileSync(join(root, path), "utf8").includes(root), `${path} names ${root}`);
  }
});

test("the package stays small", () => {
  assertLess(packed.size, 500_000);
  assertLess(packed.unpackedSize, 2_000_000);
});

test("JSR warns about imports of optional packages only", async () => {
  const deno = runtimeBinary("deno");
  const { code, output } = await run(deno, ["publish", "--dry-run", "--allow-dirty"]);
  assertEquals(code, 0, output);
  const warnings = output.split("\n").flatMap((line, i, lines) =>
    /^(warning|error)\b/i.test(line) ? [lines.slice(i, i + 4).join("\n")] : []
  );
  assertEquals(warnings.filter((it) => !isWanted(it)), [], output);
});

/**
 * Returns true for an import of an optional package by a constant. JSR would make a literal name a
 * dependency of all users, and Deno warns about constants.
 */
function isWanted(warning: string): boolean {
  const place = /^warning\[unanalyzable-dynamic-import\].*\n +--> (.+):\d+:\d+\n/.exec(warning);
  if (place === null) return false;
  const path = relative(root, place[1]!).replaceAll("\\", "/");
  // The thread loads modules of custom engines, and the command loads modules of its user.
  if (path === "src/lease/_lease_thread_main.ts" || path.startsWith("cli/")) return true;
  const [, constant = ""] = /import\((\w+)\)/.exec(warning) ?? [];
  const [, name = ""] = new RegExp(`^const ${constant}: string = "(.+)";$`, "m").exec(
    readFileSync(join(root, path), "utf8"),
  ) ?? [];
  return name in manifest.peerDependencies || /^bun(:|$)|^node:/.test(name);
}
