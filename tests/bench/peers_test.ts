import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { assert, assertEquals, assertGreater } from "@std/assert";
import { root } from "../../tools/runtimes.ts";

interface Package {
  readonly version?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
}

const folder = join(root, "bench", "peers");
const read = (name: string) => JSON.parse(readFileSync(join(folder, name), "utf8"));
const manifest: Package = read("package.json");
const packages: Readonly<Record<string, Package>> = read("package-lock.json").packages;

/** What a package needs and the lock lacks, looked up in the folders where Node looks. */
function missingOf([path, it]: readonly [string, Package]): string[] {
  const optional = it.peerDependenciesMeta ?? {};
  const peers = Object.keys(it.peerDependencies ?? {}).filter((name) => !optional[name]?.optional);
  const needed = [it.dependencies, it.optionalDependencies].flatMap((all) =>
    Object.keys(all ?? {})
  );
  return [...needed, ...peers].filter((name) =>
    !foldersAbove(path).some((parent) => `${parent}node_modules/${name}` in packages)
  ).map((name) => `${path || "the manifest"} needs ${name}`);
}

/** `node_modules/a/node_modules/b` is below `node_modules/a`, which is below the root. */
function foldersAbove(path: string): string[] {
  const parts = path === "" ? [] : path.split("/node_modules/");
  return parts.map((_, i) => `${parts.slice(0, i + 1).join("/node_modules/")}/`).concat("");
}

test("the lock of the peers has the versions that their manifest names", () => {
  assertEquals(packages[""]?.dependencies, manifest.dependencies);
  for (const [name, version] of Object.entries(manifest.dependencies ?? {})) {
    assertEquals(packages[`node_modules/${name}`]?.version, version, name);
  }
});

test("the lock of the peers has every package that another one needs, on every platform", () => {
  assertGreater(Object.keys(packages).length, 100);
  assertEquals(Object.entries(packages).flatMap(missingOf), []);
});

test("the lock of the peers names no registry", () => {
  assert(existsSync(join(folder, ".npmrc")));
  assert(!readFileSync(join(folder, "package-lock.json"), "utf8").includes('"resolved"'));
});
