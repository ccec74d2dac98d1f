// The package beside the oldest and the newest versions of its optional peers, used on real servers.

import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { assertEquals, assertMatch } from "@std/assert";
import { run } from "../../tools/process.ts";
import { root, runtimeBinary } from "../../tools/runtimes.ts";
import * as nats from "../engines/nats/_nats.ts";
import * as postgres from "../engines/postgres/_shared.ts";
import * as redis from "../engines/redis/_redis.ts";
import { noServer, SqsServer } from "../engines/sqs/_server.ts";
import { machineNode, packInto } from "./consumer.ts";

const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const peers: Readonly<Record<string, string>> = manifest.peerDependencies;

/** The lower ends of the ranges. */
const oldest = Object.fromEntries(
  Object.entries(peers).map(([name, range]) => [name, range.replace(/^>=/, "")]),
);

/** What everything else is tested with. */
const newest: Readonly<Record<string, string>> = Object.fromEntries(
  Object.keys(peers).map((name) => [name, manifest.devDependencies[name] ?? "13.1.1"]),
);

/** Versions that people have, and that once kept the package from being installed. */
const NAMED = {
  "ioredis": "5.0.0",
  "hono": "3.12.12",
  "@hono/node-server": "1.0.0",
  "prom-client": "14.0.0",
  "better-sqlite3": "9.6.0",
  "postgres": "3.3.0",
};

/** Peers that need no server and no binary. */
const WITHOUT_ADDRESS = [
  "hono",
  "@hono/node-server",
  "@logtape/logtape",
  "@modelcontextprotocol/server",
  "@opentelemetry/api",
  "croner",
];

const UNREACHABLE = /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH|ENOTCACHED)\b/;

const folder = mkdtempSync(join(tmpdir(), "lastcall-peers-"));
after(() => rmSync(folder, { recursive: true, force: true }));
const tarball = await packInto(folder);

/** Installs the package beside these versions; undefined where npm has no registry. */
async function install(
  t: TestContext,
  name: string,
  versions: Readonly<Record<string, string>>,
): Promise<string | undefined> {
  const project = join(folder, name);
  mkdirSync(project);
  writeFileSync(join(project, "package.json"), '{ "private": true, "type": "module" }');
  const wanted = Object.entries(versions).map(([peer, version]) => `${peer}@${version}`);
  const quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];
  const options = { cwd: project, timeoutMs: 200_000 };
  const { code, output } = await run("npm", ["install", ...quiet, ...wanted, tarball], options);
  if (code !== 0 && UNREACHABLE.test(output)) {
    t.skip("the npm registry cannot be reached");
    return undefined;
  }
  assertEquals(code, 0, output);
  return project;
}

/** Uses every peer in a project, each with a mailbox of its own, and removes the mailboxes. */
async function useAll(t: TestContext, project: string, program: string): Promise<void> {
  await using sqs = noServer ? undefined : await SqsServer.start();
  const queue = redis.uniqueName();
  const addresses: Record<string, string | undefined> = {
    "ioredis": redis.gate.skip ? undefined : `${redis.url}?queue=${queue}`,
    "postgres": postgres.url && `${postgres.url}?queue=${queue}&schema=${postgres.ownSchema()}`,
    "@nats-io/transport-node": nats.gate.skip ? undefined : `${nats.url}?queue=${queue}`,
    "@aws-sdk/client-sqs": sqs && `sqs:${queue}?create=true&endpoint=${sqs.endpoint}`,
    "better-sqlite3": await hasBinary(project, program) ? join(project, "jobs.db") : undefined,
    ...Object.fromEntries(WITHOUT_ADDRESS.map((it) => [it, ""])),
  };
  const tried = Object.keys(addresses).filter((peer) => addresses[peer] !== undefined);
  copyFileSync(
    fileURLToPath(new URL("fixtures/peers.mjs", import.meta.url)),
    join(project, "peers.mjs"),
  );
  const keys = {
    AWS_ACCESS_KEY_ID: "test",
    AWS_SECRET_ACCESS_KEY: "test",
    AWS_REGION: "eu-west-1",
  };
  const { code, output } = await run(program, ["peers.mjs", JSON.stringify(addresses)], {
    cwd: project,
    env: keys,
  });
  if (!redis.gate.skip) await redis.cleanUp(queue);
  if (!nats.gate.skip) await nats.cleanUp(queue);
  assertEquals(code, 0, output);
  const results = JSON.parse(output.trim().split("\n").at(-1) ?? "");
  for (const peer of Object.keys(peers)) {
    const skip = !tried.includes(peer) && "it has no server or no binary here";
    await t.test(peer, { skip }, () => assertEquals(results[peer], "works"));
  }
}

/** The newest brings its binary; for others it is fetched, and it is not compiled here. */
async function hasBinary(project: string, program: string): Promise<boolean> {
  const installer = join(project, "node_modules", "prebuild-install", "bin.js");
  const cwd = join(project, "node_modules", "better-sqlite3");
  if (existsSync(installer)) await run(program, [installer], { cwd });
  const script = "new (require('better-sqlite3'))(':memory:')";
  return (await run(program, ["-e", script, "--input-type=commonjs"], { cwd: project })).code === 0;
}

test("the package works with the oldest version of every peer that its manifest allows", async (t) => {
  const project = await install(t, "oldest", oldest);
  const node = await machineNode();
  if (project !== undefined) await useAll(t, project, node?.path ?? runtimeBinary("node"));
});

test("the package works with the newest version of every peer", async (t) => {
  const project = await install(t, "newest", newest);
  if (project !== undefined) await useAll(t, project, runtimeBinary("node"));
});

test("the package installs beside other versions of its peers", async (t) => {
  const project = await install(t, "named", NAMED);
  if (project === undefined) return;
  const program = 'import { LoopGroup, StepLoop } from "lastcall";\n' +
    'const report = await new LoopGroup([new StepLoop("a", () => {})]).run({ maxIterations: 1 });\n' +
    "console.log(String(report));";
  const { output } = await run(runtimeBinary("node"), ["--input-type=module", "-e", program], {
    cwd: project,
  });
  assertMatch(output, /drained/);
});
