import { once } from "node:events";
import { existsSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { ShutdownCoordinator } from "../../mod.ts";
import { FakeRuntime } from "../../src/testing/mod.ts";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { type Ended, lastcall } from "./_io.ts";

const fixture = (name: string) => fileURLToPath(new URL(`fixtures/${name}.ts`, import.meta.url));

afterEach(() => ShutdownCoordinator.reset());

/** A mailbox that no test may create. */
const NEVER = `sqlite:${join(tmpdir(), `lastcall-never-${crypto.randomUUID()}.db`)}`;

type Ran = Ended & { readonly exitCode: number | undefined };

/** Runs a module in this process, and returns the exit code that the process would have had. */
async function run(...args: readonly string[]): Promise<Ran> {
  const runtime = new FakeRuntime();
  const ended = await lastcall(["run", ...args], { runtime });
  return Object.assign(ended, { exitCode: runtime.exitCodes[0] });
}

/** Runs a module with this text. */
async function runText(text: string, ...args: readonly string[]): Promise<Ran> {
  using folder = new TempFolder();
  const path = folder.file("worker.mjs");
  writeFileSync(path, text);
  return await run(path, ...args);
}

describe("run", () => {
  it("runs a handler on a mailbox, with the module's options, and closes the mailbox", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    await lastcall(["send", url, "1", "2"]);
    const args = ["--mailbox", url, "--max-iterations", "1", "--concurrency", "2", "--json"];
    const { exitCode, json } = await run(fixture("handler"), ...args);
    assertEquals(exitCode, 0);
    const { report } = json[0];
    assertEquals(report.outcome, "drained");
    assertEquals(report.loops[0].name, "handler");
    assertEquals(report.counts.acknowledged, 2);
    assertEquals((await lastcall(["count", url])).out, "0 messages, 0 dead letters\n");
  });

  it("run prefers the command line to the module's options", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    await lastcall(["send", url, "0"]);
    const args = ["--mailbox", url, "--max-iterations", "1", "--max-deliveries", "1"];
    const { exitCode, json } = await run(fixture("handler"), ...args, "--name", "zeros", "--json");
    assertEquals(exitCode, 0);
    assertEquals(json[0].report.loops[0].name, "zeros");
    assertEquals(json[0].report.counts.deadLettered, 1);
  });

  it("run counts receives and not messages with --max-iterations", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    await lastcall(["send", url, "1", "2", "3"]);
    const args = ["--mailbox", url, "--max-iterations", "2", "--json"];
    assertEquals((await run(fixture("handler"), ...args)).json[0].report.counts.received, 2);
    assertMatch(
      (await run("--help")).out,
      /--max-iterations <count> +end after this many receives/,
    );
  });

  it("run ends with --until-empty when the mailbox is empty and all messages are handled", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    await lastcall(["send", url], { lines: Array.from({ length: 25 }, (_, i) => `${i + 1}`) });
    const args = [
      ...["--mailbox", url, "--until-empty", "--concurrency", "4", "--prefetch", "auto"],
      "--json",
    ];
    const { exitCode, json } = await run(fixture("handler"), ...args);
    assertEquals(exitCode, 0);
    const { report } = json[0];
    assertEquals([report.outcome, report.counts.acknowledged], ["drained", 25]);
    assertEquals((await lastcall(["count", url])).out, "0 messages, 0 dead letters\n");
    const again = await run(fixture("handler"), ...args);
    assertEquals([again.exitCode, again.json[0].report.counts.received], [0, 0], "also at once");
  });

  it("runs all loops that a module exports by name", async () => {
    const { exitCode, json } = await run(fixture("loops"), "--max-iterations", "0", "--json");
    assertEquals(exitCode, 0);
    const names = json[0].report.loops.map((loop: { name: string }) => loop.name);
    assertEquals(names.sort(), ["mails", "orders"]);
  });

  it("run ends with 1 when a loop fails", async () => {
    const { exitCode, json } = await run(fixture("failing"), "--json");
    assertEquals(exitCode, 1);
    assertEquals(json[0].report.outcome, "failed");
  });

  it("run announces the loops on standard error", async () => {
    const runtime = new FakeRuntime();
    const args = ["run", fixture("loops"), "--max-iterations", "0"];
    const { err, out } = await lastcall(args, { runtime, interactive: true });
    assertMatch(err, /^running (mails, orders|orders, mails); Ctrl\+C shuts down gracefully\n/);
    assertEquals(out, "");
  });

  it("runs loops of another copy of the package, by their shape", async () => {
    const { exitCode, json } = await runText(
      `export default [{ name: "own", running: false, run: async () => {}, shutdown: async () => true,
         [Symbol.asyncDispose]: async () => {} }];`,
      "--json",
    );
    assertEquals(exitCode, 0);
    assertEquals(json[0].report.loops[0].name, "own");
  });

  it("run passes its limits to a group of another copy of the package", async () => {
    const { code } = await runText(
      `export const group = { loops: [], run: async () => {}, shutdown: async () => true,
         main: async ({ maxIterations, maxMessages, untilEmpty }) => {
           if (maxIterations !== 7 || maxMessages !== 9 || !untilEmpty) throw new Error("not passed");
         } };
       export const loop = 1;`,
      ...["--max-iterations", "7", "--max-messages", "9", "--until-empty"],
    );
    assertEquals(code, 0);
  });

  it("run awaits an exported promise", async () => {
    const { err } = await runText(`export default Promise.resolve(() => {});`);
    assertStringIncludes(err, "which needs a mailbox");
  });
});

describe("run refuses, in one line and before anything starts,", () => {
  // deno-fmt-ignore -- a table: a module, a message, and arguments
  const modules: readonly (readonly [name: string, text: string, message: RegExp, ...args: string[]])[] = [
    ["a handler without a mailbox", "export default () => {};", /exports a handler, which needs a mailbox/],
    ["a module that exports nothing", "", /exports nothing to run: expected a handler .*, got nothing/],
    ["a module that exports nothing of use", "export const a = 1, b = {};", /got a, b/],
    ["a default export of no use", "export default 42;", /default export of .* cannot be run: .*, got 42/],
    ["a class", "export default class Worker {}", /got a class: export an instance/],
    ["several functions", "export function a() {}\nexport function b() {}", /several functions, a, b: make one/],
    ["several groups", "const g = () => ({ loops: [], run() {}, main() {} }); export const a = g(), b = g();", /several groups, a, b/],
    ["half a loop", "export default { run() {}, shutdown() {} };", /is not a Runnable: expected `name`/],
    ["options that are none", "export default () => {};\nexport const options = 5;", /must be an object/],
    ["a module that throws", 'throw new TypeError("no tea");', /Cannot load .*: TypeError: no tea/],
    ["a module with a mistake", "export default {", /Cannot load /],
    ["a module without its package", 'import "no-such-package-here";', /Cannot load .*no-such-package-here/],
    ["a policy that is none", "export default () => {};", /Allowed choices are shutdown, restart, ignore/, "--on-failure", "panic"],
    ["a port that is none", "export default () => {};", /Write a whole number from 0 to 65535/, "--health-port", "99999"],
    ["a concurrency of nothing", "export default () => {};", /Write a whole number from 1 to 1000/, "--concurrency", "0"],
    ["a timeout that is none", "export default () => {};", /Write 500ms, 30s, 2m, 1h/, "--shutdown-timeout", "-1"],
    ["a token that can be guessed", "export default () => {};", /Invalid token: expected at least 16/, "--health-port", "0", "--token", "tea"],
    ["a token that can be guessed, without a health port too", "export default () => {};", /Invalid token: expected at least 16/, "--mailbox", NEVER, "--token", "tea"],
    ["a mailbox in memory", "export default () => {};", /ends with the process/, "--mailbox", "memory:"],
    ["an unknown engine", "export default () => {};", /Unknown scheme "pigeon"/, "--mailbox", "pigeon:roof"],
    ["a delay that is longer than the stop", "export default () => {};", /Invalid unreadyDelayMs/, "--mailbox", NEVER, "--unready-delay", "2s", "--shutdown-timeout", "1s"],
    ["a visibility timeout of more than 12 hours", "export default () => {};", /'24h' is invalid\. Write at most 12h/, "--mailbox", NEVER, "--visibility-timeout", "24h"],
    ["options that the loop refuses", "export default () => {};\nexport const options = { concurrency: -1 };", /Invalid concurrency/, "--mailbox", NEVER],
    ["a flag of a loop that is made already", "export default { name: 'a', running: false, run() {}, shutdown() {} };", /--concurrency has no effect here: .* exports loops/, "--concurrency", "2"],
    ["a flag of a group that is made already", "export default { loops: [], run() {}, main() {} };", /--shutdown-timeout has no effect here: .* a group; set it/, "--shutdown-timeout", "2s"],
  ];
  for (const [name, text, message, ...args] of modules) {
    it(`run refuses ${name}`, async () => {
      const { code, exitCode, out, err } = await runText(text, ...args);
      assertEquals({ code, exitCode, out }, { code: 2, exitCode: undefined, out: "" });
      const [line = "", hint, ...more] = err.trimEnd().split("\n");
      assertMatch(line, message);
      assertEquals([hint, more], ["See lastcall run --help", []]);
      assertEquals(existsSync(NEVER.slice("sqlite:".length)), false);
    });
  }

  it("run refuses a module that is not there", async () => {
    const { code, err } = await run("./no_such_worker.ts");
    assertEquals(code, 2);
    assertStringIncludes(err, "No module ./no_such_worker.ts");
  });

  it("run refuses a port that is in use", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const args = ["--health-port", String(port), "--health-host", "127.0.0.1"];
    const { code, exitCode, err } = await run(fixture("loops"), ...args);
    server.close();
    assertEquals([code, exitCode], [1, undefined]);
    assertMatch(err, new RegExp(`^error: Cannot listen on 127.0.0.1:${port}: .*\n$`));
  });

  it("run refuses no module at all", async () => {
    const { code, err } = await run();
    assertEquals(code, 2);
    assertStringIncludes(err, "Missing required argument 'module'");
  });

  it("run refuses a module that throws, with its stack with LASTCALL_DEBUG", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file("worker.mjs"), 'throw new Error("no tea");');
    const { err } = await lastcall(["run", folder.file("worker.mjs")], {
      env: { LASTCALL_DEBUG: "1" },
    });
    assertStringIncludes(err, "worker.mjs:1");
  });

  it("run refuses a wrong option, without printing the token", async () => {
    const { err, out } = await runText("export default 42;", "--token", "s3cret", "--colour");
    assertEquals(`${err}${out}`.includes("s3cret"), false);
  });
});
