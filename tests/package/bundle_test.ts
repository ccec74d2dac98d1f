// Programs as bundlers make them of the packed package, run far from any node_modules.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { mkdir, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { assertEquals, assertMatch } from "@std/assert";
import { run } from "../../tools/process.ts";
import { root, runtimeBinary, type RuntimeName, tool } from "../../tools/runtimes.ts";
import { makeConsumer } from "./consumer.ts";

/** Each imports no more than it needs, and prints one line. */
const PROGRAMS = {
  group: `
import { LoopGroup, StepLoop } from "lastcall";
let steps = 0;
const group = new LoopGroup([new StepLoop("steps", () => void steps++)]);
group.run({ maxIterations: 3 }).then(({ exitCode }) => console.log("steps " + steps + " exit " + exitCode));
`,
  mailbox: `
import { LoopGroup, MailboxLoop, openMailbox } from "lastcall";
openMailbox("memory:orders").then(async (mailbox) => {
  await mailbox.send("tea");
  const handler = ({ body }) => void group.shutdown().then(() => console.log("handled " + body));
  const group = new LoopGroup([new MailboxLoop({ mailbox, handler })]);
  await group.run();
  await mailbox.close();
});
`,
  health: `
import { LoopGroup, StepLoop } from "lastcall";
import { createServer } from "node:net";
const probe = createServer().listen(0, "127.0.0.1", () => {
  const { port } = probe.address();
  probe.close(async () => {
    const loop = new StepLoop("loop", async ({ sleep, iteration }) => {
      if (iteration > 1) return await sleep(1_000);
      const response = await fetch("http://127.0.0.1:" + port + "/metrics");
      console.log("metrics " + response.status + " " + /lastcall_live 1/.test(await response.text()));
      group.shutdown();
    });
    const group = new LoopGroup([loop], { healthPort: port, healthHost: "127.0.0.1" });
    group.run().catch((error) => console.log(error.message));
  });
});
`,
};

const EXPECTED: Readonly<Record<keyof typeof PROGRAMS, RegExp>> = {
  group: /^steps 3 exit 0$/m,
  mailbox: /^handled tea$/m,
  health: /^metrics 200 true$/m,
};

/** What is bundled with what is on the left, and the files that it makes. */
const BUNDLERS: Readonly<Record<string, (source: string, out: string) => readonly string[]>> = {
  "esm.mjs": (
    source,
    out,
  ) => [tool("esbuild"), source, ...esbuild("node", "esm"), `--outfile=${out}`],
  "min.mjs": (source, out) => [
    ...[tool("esbuild"), source, ...esbuild("node", "esm"), "--minify", `--outfile=${out}`],
  ],
  "common.cjs": (source, out) => [
    ...[tool("esbuild"), source, ...esbuild("node", "cjs"), `--outfile=${out}`],
  ],
  "bun.js": (
    source,
    out,
  ) => [runtimeBinary("bun"), "build", source, "--target=bun", `--outfile=${out}`],
  "node.mjs": (source, out) => [
    ...[runtimeBinary("bun"), "build", source, "--target=node", `--outfile=${out}`],
  ],
  "plain.mjs": (source, out) => [runtimeBinary("bun"), "build", source, `--outfile=${out}`],
  "program": (source, out) => [
    ...[runtimeBinary("bun"), "build", "--compile", source, `--outfile=${out}`],
  ],
};

const RUN: Readonly<Record<RuntimeName, readonly string[]>> = {
  node: [runtimeBinary("node")],
  // where there is no node_modules Bun would fetch what is missing
  bun: [runtimeBinary("bun"), "--no-install"],
  deno: [runtimeBinary("deno"), "run", "-A"],
};

function esbuild(platform: string, format: string): readonly string[] {
  return ["--bundle", `--platform=${platform}`, `--format=${format}`, "--log-level=error"];
}

const consumer = await makeConsumer([]);
const elsewhere = mkdtempSync(join(tmpdir(), "lastcall-bundles-"));
after(() => {
  consumer[Symbol.dispose]();
  rmSync(elsewhere, { recursive: true, force: true });
});
for (const [name, text] of Object.entries(PROGRAMS)) await consumer.write({ [`${name}.js`]: text });

/** Bundles a program, and returns what its bundle prints on each runtime. */
async function outputs(program: keyof typeof PROGRAMS, bundle: string): Promise<readonly string[]> {
  const out = join(elsewhere, `${program}-${bundle}`);
  const [command = "", ...args] = BUNDLERS[bundle]!(`${program}.js`, out);
  await consumer.run(command, ...args);
  const starts = bundle === "program" ? [[]] : Object.values(RUN);
  return await Promise.all(starts.map(async (start) => {
    const [first = out, ...rest] = [...start, out];
    return (await run(first, rest, { cwd: elsewhere })).output;
  }));
}

for (const bundle of Object.keys(BUNDLERS)) {
  test(`a program of loops and mailboxes is bundled without any optional package: ${bundle}`, async () => {
    for (const program of ["group", "mailbox"] as const) {
      for (const output of await outputs(program, bundle)) assertMatch(output, EXPECTED[program]);
    }
  });
}

test("a bundle without hono names every package that its health port needs", async () => {
  const [onNode = "", onBun = "", onDeno = ""] = await outputs("health", "esm.mjs");
  assertMatch(
    onNode,
    /healthPort needs the packages hono and @hono\/node-server, .*npm install hono @hono\/node-server/,
  );
  for (const output of [onBun, onDeno]) assertMatch(output, /healthPort needs the package hono, /);
});

test("installed packages become part of the bundle, and /metrics works on all runtimes", async () => {
  const { devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  for (const peer of ["hono", "@hono/node-server", "prom-client"]) {
    assertEquals(typeof devDependencies[peer], "string");
    const link = join(consumer.folder, "node_modules", peer);
    await mkdir(dirname(link), { recursive: true });
    await symlink(join(root, "node_modules", peer), link, "dir");
  }
  for (const bundle of Object.keys(BUNDLERS).filter((it) => it !== "plain.mjs")) {
    for (const output of await outputs("health", bundle)) {
      assertMatch(output, EXPECTED.health, bundle);
    }
  }
});
