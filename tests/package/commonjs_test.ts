// The package in a folder as `npm init -y` makes it, which is one of CommonJS modules.

import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { fencedBlocks } from "../../tools/markdown.ts";
import { run } from "../../tools/process.ts";
import { root, runtimeBinary, tool } from "../../tools/runtimes.ts";
import { exportedSpecifiers, machineNode, packInto } from "./consumer.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "lastcall-commonjs-")));
after(() => rmSync(folder, { recursive: true, force: true }));

async function succeed(program: string, ...args: readonly string[]): Promise<string> {
  const { code, output } = await run(program, args, { cwd: folder });
  assertEquals(code, 0, `${program} ${args.join(" ")}:\n${output}`);
  return output;
}

const tarball = await packInto(folder);
await succeed("npm", "init", "-y");
// npm before version 11 says nothing, which means the same.
const { type = "commonjs" } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
assertEquals(type, "commonjs");
await succeed("npm", "install", "--offline", "--ignore-scripts", tarball);

/** What can be required without any optional package. */
const subpaths = exportedSpecifiers()
  .filter((it) => it !== "lastcall/health" && it !== "lastcall/cron");

const typed = `
import { LoopGroup, StepLoop, type LoopGroupOptions } from "lastcall";
import { ServiceLoop, type ServiceLoopOptions } from "lastcall/service";
${subpaths.map((it, i) => `import m${i} = require("${it}");`).join("\n")}
export const modules: object[] = [${subpaths.map((_, i) => `m${i}`).join(", ")}];
const options: LoopGroupOptions = { shutdownTimeoutMs: 1_000 };
const address: ServiceLoopOptions = { port: 0 };
const loop: StepLoop = new StepLoop("loop", ({ iteration }) => void iteration.toFixed(0));
const service: ServiceLoop = new ServiceLoop("service", () => new Response("soup"), address);
void new LoopGroup([loop], options).run({ maxIterations: 3 }).then((report) => {
  const exitCode: number = report.exitCode;
  console.log("exit", exitCode, service.name);
});
// @ts-expect-error the types are there, and are not any
export const wrong = (): unknown => new StepLoop(42);
// @ts-expect-error as above
export const alsoWrong = (): unknown => new ServiceLoop("service", 42, address);
`;

test("the README's program works in a folder made by npm init, on all runtimes", async () => {
  const blocks = fencedBlocks(readFileSync(join(root, "README.md"), "utf8"));
  const program = blocks.find(({ markers }) => markers.has("file"));
  const file = program?.markers.get("file");
  assert(program && file, "the README has no program");
  const limited = program.text.replace(".main()", ".main({ maxIterations: 1 })");
  assert(limited !== program.text);
  writeFileSync(join(folder, file), limited);
  const lastcall = join(folder, "node_modules", ".bin", "lastcall");
  for (const start of [["node"], ["bun"], ["deno", "run", "-A"]] as const) {
    await succeed(lastcall, "send", "sqlite:./jobs.db?queue=mails", '{"to":"ada@example.org"}');
    const [name, ...flags] = start;
    const output = await succeed(runtimeBinary(name), ...flags, file);
    assertStringIncludes(output, "a mail to ada@example.org");
  }
});

test("the doctor names every package that a health port needs", async () => {
  const lastcall = join(folder, "node_modules", "lastcall", "dist", "cli", "bin.js");
  const doctor = async (...start: readonly string[]) => {
    const [program = "", ...flags] = start;
    const args = [...flags, lastcall, "doctor", "--health-port", "0", "--json"];
    return (await run(program, args, { cwd: folder })).output;
  };
  assertMatch(
    await doctor(runtimeBinary("node")),
    /"problem".*needs the packages hono and @hono\/node-server, .*npm install hono @hono\/node-server/,
  );
  for (const start of [[runtimeBinary("bun")], [runtimeBinary("deno"), "run", "-A"]]) {
    assertMatch(await doctor(...start), /"problem".*needs the package hono, /);
  }
});

test("every subpath can be required and is the module that import returns", async () => {
  writeFileSync(
    join(folder, "all.mjs"),
    `
import { createRequire } from "node:module";
const require = createRequire(import.meta.url);
for (const specifier of ${JSON.stringify(subpaths)}) {
  const [required, imported] = [require(specifier), await import(specifier)];
  for (const name of Object.keys(imported)) {
    if (required[name] !== imported[name]) throw new Error(name + " of " + specifier + " differs");
  }
}
console.log("same");`,
  );
  for (const start of [["node"], ["bun"], ["deno", "run", "-A"]] as const) {
    const [name, ...flags] = start;
    assertMatch(await succeed(runtimeBinary(name), ...flags, "all.mjs"), /same/);
  }
});

for (const module of ["node16", "nodenext"]) {
  test(`TypeScript that compiles to CommonJS has types and runs: module ${module}`, async () => {
    writeFileSync(join(folder, "main.ts"), typed);
    const compilerOptions = {
      module,
      strict: true,
      target: "es2022",
      lib: ["es2022", "esnext.disposable", "dom"],
      types: [],
      outDir: module,
    };
    const config = JSON.stringify({ compilerOptions, files: ["main.ts"] });
    writeFileSync(join(folder, `${module}.json`), config);
    await succeed(tool("tsc"), "-p", `${module}.json`);
    const built = join(module, "main.js");
    assertStringIncludes(readFileSync(join(folder, built), "utf8"), 'require("lastcall")');
    const other = await machineNode();
    for (const node of [runtimeBinary("node"), ...(other === undefined ? [] : [other.path])]) {
      assertMatch(await succeed(node, built), /exit 0 service/);
    }
  });
}
