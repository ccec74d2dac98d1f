import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { parse } from "@babel/parser";
import { assert, assertEquals, assertGreater, assertLessOrEqual } from "@std/assert";
import { root } from "../tools/runtimes.ts";
import { scan } from "../tools/source_scan.ts";

const read = (name: string) => JSON.parse(readFileSync(join(root, name), "utf8"));
const jsr = read("deno.json");
const npm = read("package.json");

test("both manifests name the same package, version and license", () => {
  assertEquals(jsr.name, `@${npm.name}/${npm.name}`);
  assertEquals(jsr.version, npm.version);
  assertEquals(jsr.license, npm.license);
});

test("both manifests export the same subpaths, in the same order", () => {
  assertEquals(Object.keys(npm.exports), Object.keys(jsr.exports));
});

test("every subpath of npm is the build of the source that JSR exports", () => {
  const built = Object.entries<string>(jsr.exports).map(([subpath, source]) => {
    const target = source.replace(/^\.\//, "./dist/").replace(/\.ts$/, "");
    return [subpath, {
      require: { types: `${target}.d.cts`, default: `${target}.cjs` },
      types: `${target}.d.ts`,
      default: `${target}.js`,
    }];
  });
  assertEquals(npm.exports, Object.fromEntries(built));
});

test("every export has its source, and JSR publishes it", () => {
  const published: readonly string[] = jsr.publish.include;
  for (const source of Object.values<string>(jsr.exports)) {
    assert(existsSync(join(root, source)), `${source} is exported and does not exist`);
    const top = source.split("/")[1] ?? "";
    assert(published.includes(top), `${source} is exported and ${top} is not in publish.include`);
  }
});

test("the root exports at most 80 names: what programs use", () => {
  const { program } = parse(readFileSync(join(root, "mod.ts"), "utf8"), {
    sourceType: "module",
    plugins: ["typescript"],
  });
  // `export *` is refused by the layering test, so that every name is in the list.
  const names = program.body.flatMap((it) =>
    it.type === "ExportNamedDeclaration" ? it.specifiers.map(({ exported }) => exported) : []
  );
  assertGreater(names.length, 50);
  assertLessOrEqual(names.length, 80);
});

test("only the status reads a manifest: the version is no part of what the package does", () => {
  for (const path of globSync("{mod.ts,{src,runtime_adapters}/**/*.ts}", { cwd: root })) {
    const { imports } = scan(path, readFileSync(join(root, path), "utf8"));
    const manifests = path === join("src", "health", "_status_source.ts")
      ? ["../../deno.json"]
      : [];
    assertEquals(imports.filter((it) => it.endsWith(".json")), manifests, path);
  }
});

test("every peer is optional, and allowed from its oldest version that works on", () => {
  const optional = Object.entries<{ optional: boolean }>(npm.peerDependenciesMeta)
    .filter(([, it]) => it.optional).map(([name]) => name);
  assertEquals(optional.sort(), Object.keys(npm.peerDependencies).sort());
  // An upper end would keep users of something else from installing a newer major version of a peer.
  for (const [name, range] of Object.entries<string>(npm.peerDependencies)) {
    assert(/^>=\d+\.\d+\.\d+$/.test(range), `${name} is ${range}`);
  }
});

test("npm users get no dependency", () => {
  assertEquals(npm.dependencies, undefined);
  assertEquals(npm.optionalDependencies, undefined);
});

test("every development dependency is pinned", () => {
  for (const [name, version] of Object.entries<string>(npm.devDependencies)) {
    assert(/^(\d+\.\d+\.\d+|file:.+)$/.test(version), `${name} is ${version}`);
  }
});

test("the stand-ins answer to the names and versions that deno.json asks JSR for", () => {
  for (const folder of jsr.links) {
    const own = read(join(folder, "deno.json"));
    const asked = jsr.imports[own.name];
    assertEquals(asked, `jsr:${own.name}@^${own.version.split(".")[0]}`);
    assertEquals(npm.devDependencies[own.name], `file:${folder.replace("./", "")}`);
  }
});
