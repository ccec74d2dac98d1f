import { globSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { assert, assertEquals, assertGreater, assertStringIncludes } from "@std/assert";
import { ENGINES } from "../src/engines/registry.ts";
import { engineViolations, violations } from "../tools/layering.ts";
import { root } from "../tools/runtimes.ts";
import { scan } from "../tools/source_scan.ts";

const check = (files: Readonly<Record<string, string>>) =>
  violations(Object.entries(files).map(([path, text]) => scan(path, text)));

test("the sources keep the directions of imports, know no runtime and stay small", () => {
  const paths = globSync("{mod.ts,{src,runtime_adapters,cli}/**/*.ts}", { cwd: root })
    .map((path) => path.replaceAll("\\", "/"))
    .sort();
  assertGreater(paths.length, 5);
  const sources = paths.map((path) => scan(path, readFileSync(`${root}/${path}`, "utf8")));
  assertEquals(violations(sources), []);
});

test("no file besides the registry and the engines' own folders names engines", () => {
  const paths = globSync("{src,cli,chaos,tools}/**/*.ts", { cwd: root })
    .map((path) => path.replaceAll("\\", "/"))
    .filter((path) => !path.startsWith("tools/std/"));
  const sources = paths.map((path) => scan(path, readFileSync(`${root}/${path}`, "utf8")));
  assertEquals(engineViolations(sources), []);
});

test("every package of an engine in the registry is an optional peer of the npm package", () => {
  const npm = JSON.parse(readFileSync(`${root}/package.json`, "utf8"));
  for (const name of ENGINES.flatMap(({ packages = [] }) => packages)) {
    assert(npm.peerDependencies[name], `${name} is not a peer`);
    assertEquals(npm.peerDependenciesMeta[name], { optional: true });
  }
});

test("layering refuses a comparison with a scheme, a package, and a list of engines", () => {
  const found = (text: string) => engineViolations([scan("cli/a.ts", text)]);
  assertEquals(found('if (scheme === "sqs") a();').length, 1);
  assertEquals(found('await import("ioredis"); const MODULE: string = "ioredis";').length, 1);
  assertEquals(found('const a = "sqlite:./jobs.db"; const b = "redis://host";').length, 1);
  assertEquals(found("const a = `Redis, ${b} or PostgreSQL`;").length, 1);
  assertEquals(found("const a = /^(sqlite|redis):/;").length, 1);
  assertEquals(found('const a = "sqlite:./jobs.db"; // or redis://host'), []);
  assertEquals(found('import { redis } from "../src/engines/redis/registration.ts";'), []);
});

// deno-fmt-ignore -- a table: one bad source a line
const bad: readonly (readonly [name: string, path: string, text: string, message: string])[] = [
  ["a port that imports the core", "src/clock.ts", 'import { a } from "./lifecycle/a.ts";', "ports only"],
  ["a type that a port imports from the core", "src/log.ts", 'import type { A } from "./_a.ts";', "ports only"],
  ["a port other than the clock that imports @std/async", "src/log.ts", 'import { delay } from "@std/async";', '"@std/async"'],
  ["core that imports an adapter", "src/a.ts", 'import { a } from "../runtime_adapters/node.ts";', "is core"],
  ["core that re-exports an adapter", "src/a.ts", 'export { a } from "../runtime_adapters/node.ts";', "is core"],
  ["core that imports an adapter late", "src/a.ts", 'const a = await import("../runtime_adapters/node.ts");', "is core"],
  ["core that imports node:", "src/loops/a.ts", 'import fs from "node:fs";', '"node:fs"'],
  ["core that imports for the effect", "src/loops/a.ts", 'import "node:fs";', '"node:fs"'],
  ["core that imports an npm package", "src/a.ts", "import a from 'ioredis';", '"ioredis"'],
  ["core that imports the testing assertions", "src/a.ts", 'import { assert } from "@std/assert";', '"@std/assert"'],
  ["LogTape in more than one file", "src/loops/a.ts", 'await import("@logtape/logtape");', '"@logtape/logtape"'],
  ["OpenTelemetry in more than one file", "src/service/a.ts", 'await import("@opentelemetry/api");', '"@opentelemetry/api"'],
  ["hono outside of health and service", "src/lifecycle/a.ts", 'import { Hono } from "hono";', '"hono"'],
  ["hono in an engine", "src/engines/a.ts", 'import { Hono } from "hono";', '"hono"'],
  ["more of node: than SQLite needs", "src/engines/sqlite/a.ts", 'import os from "node:os";', '"node:os"'],
  ["files without waiting in more than one file", "src/engines/sqlite/a.ts", 'import fs from "node:fs";', '"node:fs"'],
  ["node: in an engine", "src/engines/a.ts", 'import fs from "node:fs";', '"node:fs"'],
  ["a module of Bun under a constant", "src/engines/a.ts", 'const MODULE: string = "bun"; await import(MODULE);', '"bun"'],
  ["an import whose module is computed", "src/engines/a.ts", 'await import("io" + "redis");', "must name the module"],
  ["an import whose module is a parameter", "src/engines/a.ts", "const load = (name: string) => import(name);", "must name the module"],
  ["a type imported in place", "src/a.ts", 'let a: import("ioredis").Redis;', '"ioredis"'],
  ["process handed on in core", "src/a.ts", "const a = process;", "runtime: process"],
  ["Deno in core", "src/a.ts", "Deno.exit(1);", "runtime: Deno"],
  ["Deno through globalThis in core", "src/a.ts", "globalThis.Deno?.exit(1);", "runtime: Deno"],
  ["Deno by name of a type in core", "src/a.ts", "const g = globalThis as { Deno?: unknown };", "runtime: Deno"],
  ["a computed global in core", "src/a.ts", 'const g = globalThis["De" + "no"];', "runtime: globalThis["],
  ["Deno in more of the engine of its store", "src/engines/deno_kv/a.ts", "Deno.openKv();", "runtime: Deno"],
  ["Bun in core", "src/a.ts", "Bun.serve({});", "runtime: Bun"],
  ["process in core", "src/a.ts", 'process.on("SIGTERM", stop);', "runtime: process"],
  ["process within a template in core", "src/a.ts", "const a = `pid ${process.pid}`;", "runtime: process"],
  ["process after a pattern in core", "src/a.ts", 'const a = /["`]/.test(b) ? process.pid : "";', "runtime: process"],
  ["a raw timer in core", "src/a.ts", "setTimeout(f, 1);", "from a Clock: setTimeout"],
  ["a raw timer through globalThis in core", "src/a.ts", "globalThis.setInterval(f, 1);", "setInterval"],
  ["a random number in core", "src/a.ts", "const a = Math.random();", "from a Random: Math.random"],
  ["a source of random numbers handed on in core", "src/a.ts", "const a = b ?? Math.random;", "from a Random"],
  ["a random id in core", "src/loops/a.ts", "const a = globalThis.crypto.randomUUID();", "from a Random: randomUUID"],
  ["a random id by destructuring in core", "src/a.ts", "const { getRandomValues } = crypto;", "from a Random"],
  ["an adapter that imports more of the core", "runtime_adapters/node.ts", 'import { a } from "../src/errors.ts";', "alone"],
  ["an adapter that imports another", "runtime_adapters/node.ts", 'import { a } from "./bun.ts";', "alone"],
  ["an adapter that imports an npm package", "runtime_adapters/node.ts", 'import a from "hono";', '"hono"'],
  ["core that imports the root for its runtime", "src/agents/a.ts", 'import "../../mod.ts";', "is core"],
  ["core that imports the command", "src/a.ts", 'import { main } from "../cli/main.ts";', "is core"],
  ["a library that imports the command", "mod.ts", 'export { main } from "./cli/main.ts";', "the command"],
  ["an adapter that imports the command", "runtime_adapters/node.ts", 'import { a } from "../cli/a.ts";', "alone"],
  ["a command that chooses its adapter", "cli/a.ts", 'import { a } from "../runtime_adapters/node.ts";', "is the command"],
  ["a command that imports an npm package of its own", "cli/a.ts", 'import a from "chalk";', '"chalk"'],
  ["a command that knows a runtime", "cli/a.ts", "Deno.args;", "must not know one: Deno"],
  ["a command that imports a private file of the core", "cli/a.ts", 'import { a } from "../src/loops/_a.ts";', "private"],
  ["a private file of another folder", "src/a.ts", 'import { a } from "./loops/_a.ts";', "private"],
  ["a lifecycle that imports health", "src/lifecycle/a.ts", 'import type { A } from "../health/a.ts";', "a higher folder"],
  ["a mailbox that imports leases", "src/mailbox/a.ts", 'import { a } from "../lease/a.ts";', "a higher folder"],
  ["exporting everything", "mod.ts", 'export * from "./src/a.ts";', "by name"],
  ["exporting everything under one name", "mod.ts", 'export * as a from "./src/a.ts";', "by name"],
  ["a default export of the package", "mod.ts", "export default 1;", "by name"],
  ["a file of 301 lines", "src/a.ts", "a();\n".repeat(301), "301 lines"],
];

for (const [name, path, text, message] of bad) {
  test(`layering refuses ${name}`, () => {
    const found = check({ [path]: text });
    assertEquals(found.length, 1, `${found.length} violations in: ${text.slice(0, 80)}`);
    assertStringIncludes(found[0] ?? "", message);
  });
}

test("layering refuses an import cycle, also one of types", () => {
  const found = check({
    "src/a.ts": 'import { b } from "./b.ts";',
    "src/b.ts": 'import type { C } from "./x/c.ts";',
    "src/x/c.ts": 'export { a } from "../a.ts";',
  });
  assertEquals(found, ["import cycle: src/a.ts → src/b.ts → src/x/c.ts → src/a.ts"]);
});

test("layering accepts what the rules allow", () => {
  const found = check({
    "mod.ts":
      'export { a, type B } from "./src/a.ts";\nimport { d } from "./runtime_adapters/detect.ts";',
    "src/clock.ts": 'import { delay } from "@std/async";\nsetTimeout(f, 1);',
    "src/log.ts": 'import type { Clock } from "./clock.ts";',
    "src/random.ts": "const a = Math.random() + crypto.randomUUID();",
    "src/_b.ts": "b();\n".repeat(300),
    "src/a.ts": 'import { b } from "./_b.ts";\nimport { c } from "./loops/c.ts";',
    "src/loops/c.ts": 'import { b } from "../_b.ts";\nimport { d } from "./_d.ts";',
    "src/library_log.ts": 'await import("@logtape/logtape");',
    "src/telemetry/open_telemetry.ts": 'await import("@opentelemetry/api");',
    "src/health/app.ts": 'import { Hono } from "hono";',
    "src/agents/mod.ts": 'import "../../mod.ts";',
    "src/engines/sqlite/a.ts":
      'await import("node:sqlite");\nimport { open } from "node:fs/promises";',
    "src/engines/redis.ts": 'import { Redis } from "ioredis";',
    "cli/commands/a.ts":
      'import { Command } from "commander";\nimport process from "node:process";\n' +
      'import { a } from "../_a.ts";\nimport { b } from "../../mod.ts";\nprocess.exit(1);',
    "runtime_adapters/detect.ts": 'const { a } = await import("./node.ts");',
    "runtime_adapters/node.ts":
      'import process from "node:process";\nimport { a } from "./_a.ts";\n' +
      'import type { Runtime } from "../src/runtime.ts";\nprocess.exit(setTimeout(f, 1));',
  });
  assertEquals(found, []);
});

test("layering does not mind names in comments, text and patterns, or a method called process", () => {
  const found = check({
    "src/a.ts": [
      "// Deno.exit(), process.pid, setTimeout(f, 1)",
      '/** import { a } from "hono"; */',
      "const a = \"process.pid\" + 'Bun' + `setTimeout(f) ${b ? `Deno.${c}` : {}} process.env`;",
      "const d = a.length / 2; const e = /process\\.pid\\/Deno/.test(a);",
      "class F { process(m) { return this.process(m) ?? clock.setTimeout(m); } }",
      "const DenoLike = 1; const bundle = isBundle;",
      'const g = Array.from("hono"); const h = from("hono");',
    ].join("\n"),
  });
  assertEquals(found, []);
});
