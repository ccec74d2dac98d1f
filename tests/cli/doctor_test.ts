import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, describe, it } from "node:test";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { openMailbox, silentLog } from "../../mod.ts";
import { freePort } from "../engines/_servers.ts";
import * as postgres from "../engines/postgres/_shared.ts";
import * as redis from "../engines/redis/_redis.ts";
import { lastcall } from "./_io.ts";
import { startWorker } from "./_worker.ts";

const folder = mkdtempSync(join(tmpdir(), "lastcall-cli-doctor-"));
after(() => rmSync(folder, { recursive: true, force: true }));

/** Returns the finding of one check. */
async function find(check: string, ...args: readonly string[]) {
  const { json } = await lastcall(["doctor", "--json", ...args]);
  return json.find((it) => it.check === check);
}

describe("lastcall doctor", () => {
  it("lastcall doctor exits 0 with the defaults on no platform", async () => {
    const { code, out, err } = await lastcall(["doctor"]);
    assertEquals({ code, err }, { code: 0, err: "" });
    assertMatch(out, /^ok +platform +none detected/);
    assertMatch(out, /\nok +drain +0 s unready \+ 28 s for work \+ 2 s reserve = 30 s/);
    assertMatch(out, /\n\nall checks passed\n$/);
  });

  it("lastcall doctor prints each problem with the reason and the change, and exits 1", async () => {
    const { code, out, err } = await lastcall(["doctor", "--platform", "kubernetes"]);
    assertEquals({ code, err }, { code: 1, err: "error: 1 problem: grace\n" });
    assertMatch(
      out,
      /problem +grace +a shutdown may take 30 s, but the process is killed after 30 s\n/,
    );
    assertMatch(out, / +why: messages that are not released/);
    assertMatch(out, / +change: --shutdown-timeout 28s; or terminationGracePeriodSeconds: 32/);
    assertMatch(out, /\n1 problem, 0 warnings\n$/);
  });

  it("lastcall doctor passes after the changes that it recommends", async () => {
    const args = ["--platform", "kubernetes", "--processing-time", "40s"];
    assertMatch(
      (await find("drain", ...args)).change,
      /--shutdown-timeout 42s with terminationGracePeriodSeconds: 44 /,
    );
    const { code, out } = await lastcall(
      ["doctor", ...args, "--shutdown-timeout", "42s", "--grace", "44s"],
    );
    assertEquals(code, 0, out);
    assertStringIncludes(out, "all checks passed");
  });

  it("lastcall doctor exits 0 with warnings only", async () => {
    const { code, out } = await lastcall(["doctor", "--mailbox", "memory:"]);
    assertEquals(code, 0);
    assertMatch(out, /warning +engine +memory: is a mailbox of one process/);
    assertMatch(out, /0 problems, 1 warning\n$/);
  });

  it("lastcall doctor writes one finding a line with --json", async () => {
    const { code, json, err } = await lastcall(["doctor", "--grace", "10s", "--json"]);
    assertEquals(code, 1);
    assertEquals(json.map(({ check }) => check), [
      ...["platform", "grace", "unready", "drain", "visibility", "lease", "watchdog", "runtime"],
    ]);
    assertEquals(JSON.parse(err).error, { message: "1 problem: grace", code: "failed" });
  });

  it("lastcall doctor detects the platform by its variable, and prefers the flag", async () => {
    const env = { KUBERNETES_SERVICE_HOST: "10.0.0.1" };
    const found = await lastcall(["doctor"], { env });
    assertStringIncludes(found.out, "(KUBERNETES_SERVICE_HOST is set)");
    const named = await lastcall(["doctor", "--platform", "systemd"], { env });
    assertMatch(named.out, /systemd sends SIGTERM and kills after 90 s\n/);
  });

  it("lastcall doctor takes settings from the environment variables of run", async () => {
    process.env["LASTCALL_SHUTDOWN_TIMEOUT"] = "7s";
    try {
      assertStringIncludes((await find("drain")).found, "= 7 s");
    } finally {
      delete process.env["LASTCALL_SHUTDOWN_TIMEOUT"];
    }
  });

  it("lastcall doctor warns about --no-lease and a watchdog that is off", async () => {
    assertEquals((await find("visibility", "--no-lease")).level, "warning");
    assertEquals((await find("watchdog", "--watchdog-threshold", "off")).level, "warning");
  });

  it("lastcall doctor reports a module that does not exist", async () => {
    assertEquals((await find("runtime", join(folder, "none.mjs"))).level, "problem");
  });

  it("lastcall doctor refuses invalid arguments with exit code 2", async () => {
    for (
      const args of [
        ["--platform", "mainframe"],
        ["--grace", "long"],
        ["--health-port", "70000"],
        ["one.ts", "two.ts"],
      ]
    ) assertEquals((await lastcall(["doctor", ...args])).code, 2, args.join(" "));
  });

  it("lastcall doctor uses colours only on a terminal without NO_COLOR", async () => {
    const { out } = await lastcall(["doctor"], { interactive: true });
    assertStringIncludes(out, "\x1b[32mok     \x1b[0m");
    const plain = await lastcall(["doctor"], { interactive: true, env: { NO_COLOR: "1" } });
    assertEquals(plain.out.includes("\x1b"), false);
  });
});

describe("lastcall doctor --health-port", () => {
  const at = (port: number) =>
    find("port", "--health-host", "127.0.0.1", "--health-port", `${port}`);

  it("lastcall doctor --health-port reports a free port and leaves it free", async () => {
    const port = await freePort();
    for (let i = 0; i < 2; i++) assertEquals((await at(port)).level, "ok");
  });

  it("lastcall doctor --health-port distinguishes a port used by a group from one used by another program", async () => {
    const other = createServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
    await once(other, "listening");
    const { port } = other.address() as { readonly port: number };
    assertEquals((await at(port)).level, "problem");
    other.close();
    await once(other, "close");
    await using worker = await startWorker();
    const finding = await at(worker.port);
    assertEquals(finding.level, "warning");
    assertStringIncludes(finding.found, "by a group of lastcall");
  });

  it("lastcall doctor --health-port reports an address that this machine does not have", async () => {
    const finding = await find("port", "--health-host", "192.0.2.1", "--health-port", "0");
    assertEquals(finding.level, "problem");
  });
});

describe("lastcall doctor --mailbox", () => {
  const of = (url: string) => find("engine", "--mailbox", url);

  it("lastcall doctor --mailbox counts the messages of a file", async () => {
    const url = `sqlite:${join(folder, "jobs.db")}`;
    const mailbox = await openMailbox(url, { log: silentLog });
    await mailbox.send("tea");
    await mailbox.close();
    const { level, found } = await of(url);
    assertEquals(level, "ok");
    assertMatch(found, /answers in .*: 1 message, 0 dead letters/);
  });

  it("lastcall doctor --mailbox does not create the file, and checks that the worker can", async () => {
    const path = join(folder, "new.db");
    assertEquals((await of(`sqlite:${path}`)).level, "ok");
    assertEquals(existsSync(path), false);
    const nowhere = await of(`sqlite:${join(folder, "no", "where", "x.db")}`);
    assertEquals(nowhere.level, "problem");
    assertMatch(nowhere.change, /^mkdir -p .*where$/);
  });

  it("lastcall doctor --mailbox reports a folder that is not writable", {
    skip: process.getuid?.() === 0 && "root may write everywhere",
  }, async () => {
    const locked = join(folder, "locked");
    mkdirSync(locked);
    chmodSync(locked, 0o500);
    assertStringIncludes(
      (await of(`sqlite:${join(locked, "x.db")}`)).found,
      "is not writable",
    );
    chmodSync(locked, 0o700);
  });

  it("lastcall doctor --mailbox reports an unreachable server without its password", async () => {
    const { level, found } = await of(`redis://:secret@127.0.0.1:${await freePort()}`);
    assertEquals(level, "problem");
    assertEquals(found.includes("secret"), false);
  });

  it("lastcall doctor --mailbox reports an invalid URL", async () => {
    for (const url of ["jobs.db", "ftp://host", "sqlite:x.db?size=1"]) {
      assertEquals((await of(url)).level, "problem", url);
    }
  });

  it("lastcall doctor --mailbox reaches Redis", redis.gate, async () => {
    const { level, found } = await of(`${redis.url}?queue=${redis.uniqueName()}`);
    assertEquals([level, /answers in .*: 0 messages/.test(found)], ["ok", true]);
  });

  it("lastcall doctor --mailbox creates no tables in PostgreSQL", postgres.options, async () => {
    const schema = postgres.ownSchema();
    for (let i = 0; i < 2; i++) {
      const { level, found } = await of(`${postgres.url}?schema=${schema}`);
      assertEquals(level, "ok");
      assertStringIncludes(found, "creates its tables when it starts");
    }
  });
});
