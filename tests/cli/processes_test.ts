import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { freePort } from "../engines/_servers.ts";
import { Child } from "../signals/_child.ts";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { ClosedFiles, unprivileged } from "../engines/sqlite/_permissions.ts";
import { lastcall } from "./_io.ts";

const fixture = (name: string) => fileURLToPath(new URL(`fixtures/${name}.ts`, import.meta.url));

const TOKEN = "a-token-that-is-hard-to-guess";

/** Starts the command in a child process, with environment variables. */
function start(args: readonly string[], cwd: string, ...variables: readonly string[]): Child {
  const wrapper = variables.length === 0 ? [] : ["env", ...variables];
  return Child.start("../../../cli/mod", { args, cwd, wrapper });
}

describe("lastcall in a process", () => {
  it("lastcall in a process runs a handler until SIGTERM, finishes the message in flight, and exits 0", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    await lastcall(["send", url, '{"wait":true}', "2"]);
    await using worker = start(["run", fixture("handler"), "--mailbox", url], folder.path);
    await worker.line('began {"wait":true}');
    worker.kill("SIGTERM");
    const { code, stdout, stderr } = await worker.exit();
    assertEquals(code, 0, stderr);
    assertStringIncludes(stdout, 'did {"wait":true}');
    // The other message was not in flight, so it waits.
    assertMatch(
      (await lastcall(["count", url])).out,
      /^1 message \(1 waiting, 0 delayed, 0 in flight, oldest .*\), 0 dead letters\n$/,
    );
  });

  it("lastcall in a process takes its options from the environment, and releases unfinished messages", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    await lastcall(["send", url, "1", "2"]);
    await using worker = start(
      ["run", fixture("stuck")],
      folder.path,
      `LASTCALL_MAILBOX=${url}`,
      "LASTCALL_CONCURRENCY=2",
      "LASTCALL_SHUTDOWN_TIMEOUT=200ms",
    );
    await worker.line("began 1");
    await worker.line("began 2");
    worker.kill("SIGTERM");
    assertEquals((await worker.exit()).code, 124);
    const { json } = await lastcall(["peek", url, "--json"]);
    assertEquals(json.map(({ body }) => body), [1, 2]);
  });

  it("lastcall in a process ends when empty with LASTCALL_UNTIL_EMPTY=true, and not with false", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    const args = ["run", fixture("handler"), "--mailbox", url];
    await lastcall(["send", url, "1", "2"]);
    await using batch = start(args, folder.path, "LASTCALL_UNTIL_EMPTY=true");
    assertEquals((await batch.exit()).code, 0);
    assertEquals((await lastcall(["count", url])).out, "0 messages, 0 dead letters\n");
    await using worker = start(args, folder.path, "LASTCALL_UNTIL_EMPTY=false");
    await worker.says("running handler");
    await lastcall(["send", url, "3"]);
    await worker.line("did 3");
    worker.kill("SIGTERM");
    assertEquals((await worker.exit()).code, 0);
    await using wrong = start(args, folder.path, "LASTCALL_UNTIL_EMPTY=perhaps");
    const { code, stderr } = await wrong.exit();
    assertEquals(code, 2);
    assertStringIncludes(
      stderr,
      'Invalid LASTCALL_UNTIL_EMPTY: expected true or false, got "perhaps"',
    );
  });

  it("lastcall in a process runs the group of a module, and ignores the environment's group options", async () => {
    using folder = new TempFolder();
    const variables = ["LASTCALL_SHUTDOWN_TIMEOUT=5s", "LASTCALL_MAILBOX=sqlite:./jobs.db"];
    await using worker = start(["run", fixture("group")], folder.path, ...variables);
    await worker.line("alone stepped");
    worker.kill("SIGINT");
    assertEquals((await worker.exit()).code, 0);
  });

  it("lastcall in a process refuses an invalid environment variable", async () => {
    using folder = new TempFolder();
    await using worker = start(["run", fixture("loops")], folder.path, "LASTCALL_UNREADY_DELAY=x");
    const { code, stderr } = await worker.exit();
    assertEquals(code, 2);
    assertStringIncludes(stderr, "LASTCALL_UNREADY_DELAY");
  });

  it("lastcall in a process serves probes with --health-port, and accepts its token", async () => {
    using folder = new TempFolder();
    const port = await freePort();
    const args = ["--health-port", String(port), "--health-host", "127.0.0.1"];
    await using worker = start(
      ["run", fixture("loops"), ...args],
      folder.path,
      `LASTCALL_TOKEN=${TOKEN}`,
    );
    await worker.line("orders stepped");
    const ready = await fetch(`http://127.0.0.1:${port}/health/ready`);
    assertEquals(await ready.json(), { status: "healthy" });
    const pause = (authorization: string) =>
      fetch(`http://127.0.0.1:${port}/pause`, { method: "POST", headers: { authorization } });
    assertEquals((await pause("Bearer another-long-token")).status, 401);
    assertEquals((await pause(`Bearer ${TOKEN}`)).ok, true);
    worker.kill("SIGTERM");
    assertEquals((await worker.exit()).code, 0);
  });

  it("lastcall in a process writes only JSON lines to standard error in a pipe", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    await lastcall(["send", url, "0", '{"wait":true}']); // the first fails, the second is in flight at SIGTERM
    const args = ["run", fixture("handler"), "--mailbox", url, "--max-deliveries", "1"];
    await using worker = Child.start("../../../cli/mod", { args, cwd: folder.path });
    await worker.line('began {"wait":true}');
    worker.kill("SIGTERM");
    const { raw } = await worker.exit();
    const records = raw.trimEnd().split("\n").map((line) => JSON.parse(line));
    for (const { at, source, event } of records) {
      assertMatch(at, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
      assertEquals([source, typeof event], ["lastcall", "string"]);
    }
    const logged = records.filter(({ event }) => event === "log");
    assertEquals(logged.map(({ level }) => level), ["info", "error"]);
    assertEquals(logged[0].message, "running handler");
    assertMatch(logged[1].message, /dead-lettered/);
    assertEquals(records.at(-1).event, "report");
  });

  it("lastcall in a process prints errors without a stack, and exits with their code", async () => {
    using folder = new TempFolder();
    await using peek = start(["peek", "sqlite:./nowhere.db"], folder.path);
    const { code, stdout, stderr } = await peek.exit();
    assertEquals({ code, stdout }, { code: 1, stdout: "" });
    assertEquals(stderr, "error: No file ./nowhere.db: no message was sent to this mailbox yet\n");
  });

  for (const file of ["secret.db", "closed/jobs.db"]) {
    it(
      `lastcall in a process reports missing permissions: ${file}`,
      { skip: unprivileged.skip },
      async () => {
        using files = await ClosedFiles.make();
        for (const command of ["count", "send", "demo"]) {
          const rest = command === "send" ? ["1"] : [];
          const target = command === "demo"
            ? ["--file", files.path(file)]
            : [`sqlite:${files.path(file)}`];
          await using child = Child.start("../../../cli/mod", {
            args: [command, ...target, ...rest],
            wrapper: unprivileged.wrapper,
          });
          const { code, stdout, stderr } = await child.exit();
          assertEquals({ code, stdout }, { code: 1, stdout: "" });
          assertMatch(
            stderr,
            /^error: The SQLite file ".*" failed: EACCES: permission denied.*give this.*\n$/,
          );
        }
      },
    );
  }

  it("lastcall in a process writes all output to a pipe before it exits", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    await lastcall(["send", url], { lines: Array(1_000).fill(JSON.stringify("x".repeat(300))) });
    await using peek = start(["peek", url, "-n", "1000", "--json"], folder.path);
    const { code, stdout } = await peek.exit();
    assertEquals(code, 0);
    assertEquals(stdout.trimEnd().split("\n").length, 1_000);
  });
});

describe("demo", () => {
  it("demo closes after --for, and continues at the next start", async () => {
    using folder = new TempFolder();
    await using first = start(["demo", "--for", "500ms"], folder.path);
    const { code, stdout, stderr } = await first.exit();
    assertEquals(code, 0, stderr);
    assertStringIncludes(stdout, "No orders yet in ./kitchen.db.");
    assertStringIncludes(stdout, "drained in ");
    const url = `sqlite:${folder.file("kitchen.db")}?queue=orders`;
    await lastcall(["send", url, '{"dish":"tea","minutes":2}']);
    await using second = start(["demo"], folder.path);
    await second.says("left from last time");
    await second.says("running");
    second.kill("SIGINT");
    const ended = await second.exit();
    assertEquals(ended.code, 0, ended.stderr);
    assertStringIncludes(ended.stdout, "for the next start.");
  });

  it("demo handles three orders at a time", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file("kitchen.db")}?queue=orders`;
    const lines = Array(6).fill('{"dish":"stew","minutes":1000}');
    await lastcall(["send", url], { lines });
    await using demo = start(["demo"], folder.path);
    const [, busy] = await demo.matches(/· (\d+) in the kitchen ·/);
    assertEquals(busy, "3");
  });
});
