import { existsSync, readFileSync } from "node:fs";
import { rename } from "node:fs/promises";
import { join } from "node:path";
import { after, test } from "node:test";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { run } from "../../tools/process.ts";
import { root, runtimeBinary, tool } from "../../tools/runtimes.ts";
import { exportedSpecifiers, machineNode, makeConsumer } from "./consumer.ts";

const imports = exportedSpecifiers().map((it) => `await import(${JSON.stringify(it)});`).join("\n");

const program = `
import { LoopGroup, ShutdownCoordinator, StepLoop } from "lastcall";
${imports}
let steps = 0;
const loop = new StepLoop("consumer", () => void steps++);
const report = await new LoopGroup([loop]).run({ maxIterations: 3 });
ShutdownCoordinator.reset();
console.log(JSON.stringify({ steps, exitCode: report.exitCode, name: ShutdownCoordinator.name }));
`;
const expected = '{"steps":3,"exitCode":0,"name":"ShutdownCoordinator"}';

const typed = `
import { LoopGroup, ShutdownCoordinator, StepLoop } from "lastcall";
${exportedSpecifiers().map((it, i) => `import * as m${i} from ${JSON.stringify(it)};`).join("\n")}
export const modules: object[] = [${exportedSpecifiers().map((_, i) => `m${i}`).join(", ")}];
const loop = new StepLoop("consumer", ({ iteration }) => iteration.toFixed(0) !== "3");
const report = await new LoopGroup([loop]).run({ maxIterations: 3 });
export const exitCode: number = report.exitCode;
export const triggered: boolean | undefined = ShutdownCoordinator.get()?.triggered;
// @ts-expect-error the types are there, and are not any
new StepLoop(42);
`;

const VISIBILITY_MS = 1_000;

/** Blocks the event loop for three lease times. The argument is the name of a file to make. */
const blocked = `
import { argv } from "node:process";
import { LoopGroup, MailboxLoop, openMailbox } from "lastcall";
const mailbox = await openMailbox("sqlite:./" + argv[2]);
await mailbox.send("tea");
const nothing = new Int32Array(new SharedArrayBuffer(4));
const handler = () => void Atomics.wait(nothing, 0, 0, ${3 * VISIBILITY_MS});
const { counts } = await new LoopGroup([new MailboxLoop({ mailbox, handler })])
  .run({ maxIterations: 1, visibilityTimeoutMs: ${VISIBILITY_MS} });
await mailbox.close();
console.log("acknowledged " + counts.acknowledged);
`;

/** The declarations themselves are checked too, so skipLibCheck stays off. */
function tsconfig(options: Readonly<Record<string, unknown>>): string {
  const compilerOptions = { strict: true, noEmit: true, target: "es2022", ...options };
  return JSON.stringify({ compilerOptions, files: ["consumer.ts"] });
}

// Not in a hook: when packing fails it fails once, not once for every test.
const consumer = await makeConsumer();
after(() => consumer[Symbol.dispose]());
await consumer.write({
  "main.js": program,
  "blocked.js": blocked,
  "worker.js": "export default ({ body }) => console.log(`cooked ${body.dish}`);",
  "consumer.ts": typed,
  "tsconfig.node.json": tsconfig({
    module: "nodenext",
    lib: ["es2022", "esnext.disposable"],
    types: ["node"],
    typeRoots: [join(root, "node_modules", "@types")],
    // The declarations of Node are not ours to check.
    skipLibCheck: true,
  }),
  "tsconfig.bundler.json": tsconfig({
    module: "esnext",
    moduleResolution: "bundler",
    lib: ["es2022", "dom", "esnext.disposable"],
    types: [],
  }),
});

test("the npm package runs on the Node of the devDependencies", async () => {
  assertStringIncludes(await consumer.run(runtimeBinary("node"), "main.js"), expected);
});

test("the npm package runs on this machine's Node, from version 20 on", async (t) => {
  const node = await machineNode();
  if (node === undefined) return t.skip("this machine has no other Node");
  const major = Number(/^v(\d+)/.exec(node.version)?.[1]);
  if (major < 20) return t.skip(`this machine's Node is ${node.version}`);
  assertStringIncludes(await consumer.run(node.path, "main.js"), expected);
});

test("the npm package runs on Bun", async () => {
  assertStringIncludes(await consumer.run(runtimeBinary("bun"), "run", "main.js"), expected);
});

test("the npm package runs on Deno", async () => {
  assertStringIncludes(await consumer.run(runtimeBinary("deno"), "run", "-A", "main.js"), expected);
});

test("the npm package extends the lease of a handler that blocks the event loop", async () => {
  const results = await Promise.all([
    consumer.run(runtimeBinary("node"), "blocked.js", "node.db"),
    consumer.run(runtimeBinary("bun"), "run", "blocked.js", "bun.db"),
    consumer.run(runtimeBinary("deno"), "run", "-A", "blocked.js", "deno.db"),
  ]);
  for (const result of results) assertStringIncludes(result, "acknowledged 1");
});

const bin = join(consumer.folder, "node_modules", "lastcall", "dist", "cli", "bin.js");

/** Sends and works off one order with the command as npm installed it. */
async function useCommand(name: string, ...start: readonly [string, ...string[]]) {
  const [program, ...args] = start;
  const lastcall = (...rest: string[]) => consumer.run(program, ...args, bin, ...rest);
  const mailbox = `sqlite:./${name}.db`;
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  assertEquals((await lastcall("--version")).trim(), version);
  assertStringIncludes(await lastcall("send", mailbox, '{"dish":"soup"}'), "sent ");
  const options = ["--mailbox", mailbox, "--max-iterations", "1"];
  assertStringIncludes(await lastcall("run", "worker.js", ...options), "cooked soup");
  assertStringIncludes(
    await lastcall("count", mailbox, "--json"),
    '{"messages":0,"waiting":0,',
  );
}

test("the command works as npm installs it, on all three runtimes", async () => {
  await Promise.all([
    useCommand("cli-node", runtimeBinary("node")),
    useCommand("cli-bun", runtimeBinary("bun"), "run"),
    useCommand("cli-deno", runtimeBinary("deno"), "run", "-A"),
  ]);
});

test("npm finds the command by its name", async () => {
  const found = join(consumer.folder, "node_modules", ".bin", "lastcall");
  assertStringIncludes(await consumer.run(found, "help"), "Usage: lastcall");
});

test("the command reports a missing package as wrong usage", async () => {
  const lastcall = (...args: string[]) =>
    run(runtimeBinary("node"), [bin, ...args], { cwd: consumer.folder });
  const worker = ["run", "worker.js", "--mailbox"];
  // deno-fmt-ignore -- a table: what is asked for, and what is missing
  const asked: readonly (readonly [string, readonly string[]])[] = [
    ["ioredis", [...worker, "redis://127.0.0.1:6379"]],
    ["postgres", ["count", "postgres://127.0.0.1/app"]],
    ["@nats-io/transport-node", ["peek", "nats://127.0.0.1:4222"]],
    ["@hono/node-server", [...worker, "sqlite:./never.db", "--health-port", "0"]],
    ["croner", ["cron", "next", "@daily"]],
  ];
  const croner = join(consumer.folder, "node_modules", "croner");
  await rename(croner, `${croner}.away`);
  for (const [name, args] of asked) {
    const { code, output } = await lastcall(...args);
    assertEquals(code, 2, output);
    assertMatch(output, /^error: .*cannot be loaded/);
    assertStringIncludes(output, `npm install ${name}`);
  }
  await rename(`${croner}.away`, croner);
  const { code, output } = await lastcall("cron", "next", "@daily");
  assertEquals(code, 0, output);
  assertEquals(existsSync(join(consumer.folder, "never.db")), false);
});

test("a Node without TypeScript and SQLite says what to do, and opens the demo in memory", async (t) => {
  const node = await machineNode();
  if (node === undefined || !/^v20\./.test(node.version)) {
    return t.skip("this machine has no Node 20");
  }
  const lastcall = (...args: string[]) => run(node.path, [bin, ...args], { cwd: consumer.folder });
  const { code, output } = await lastcall("run", "consumer.ts");
  assertEquals(code, 2);
  const count = await lastcall("send", "sqlite:./never.db", "1");
  assertMatch(count.output, /^error: No SQLite driver .* use Node 22/);
  const demo = await lastcall("demo", "--for", "500ms");
  assertEquals(demo.code, 0, demo.output);
  assertMatch(
    demo.output,
    /every order is in memory\.\nThe orders are lost at the end: keeping them needs/,
  );
  assertMatch(demo.output, /\d orders? lost: .*Node 22\.13 or newer/);
  assertMatch(output, /^error: Node 20\..* TypeScript needs Node 22\.18 or newer, Bun or Deno/);
});

test("the declarations type-check with Node's types", async () => {
  await consumer.run(tool("tsc"), "-p", "tsconfig.node.json");
});

test("the declarations type-check for a bundler, with the DOM's types and none of Node's", async () => {
  await consumer.run(tool("tsc"), "-p", "tsconfig.bundler.json");
});

test("publint reports nothing about the tarball", async () => {
  assertMatch(await consumer.run(tool("publint"), "run", consumer.tarball, "--strict"), /All good/);
});

test("every subpath resolves to types of the right kind", async () => {
  const options = ["--profile", "node16", "--no-definitely-typed", "--no-emoji"];
  const output = await consumer.run(tool("attw"), consumer.tarball, ...options);
  for (const specifier of exportedSpecifiers()) assertStringIncludes(output, `"${specifier}"`);
});
