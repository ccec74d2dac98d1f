import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
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

/** What the doctor finds about one thing. */
async function find(check: string, ...args: readonly string[]) {
  const { json } = await lastcall(["doctor", "--json", ...args]);
  return json.find((it) => it.check === check);
}

describe("lastcall doctor", () => {
  it("finds the defaults well where nobody kills, and exits 0", async () => {
    const { code, out, err } = await lastcall(["doctor"]);
    assertEquals({ code, err }, { code: 0, err: "" });
    assertMatch(out, /^ok +platform +none is known/);
    assertMatch(out, /\nok +drain +0 s unready \+ 28 s for work \+ 2 s reserve = 30 s/);
    assertMatch(out, /\n\nall well\n$/);
  });

  it("says what is wrong, why and what to change, and exits 1", async () => {
    const { code, out, err } = await lastcall(["doctor", "--platform", "kubernetes"]);
    assertEquals({ code, err }, { code: 1, err: "error: 1 problem: grace\n" });
    assertMatch(
      out,
      /problem +grace +a stop may take 30 s, and the process is killed after 30 s\n/,
    );
    assertMatch(out, / +why: what is not given back/);
    assertMatch(out, / +change: --shutdown-timeout 28s; or terminationGracePeriodSeconds: 32/);
    assertMatch(out, /\n1 problem, 0 warnings\n$/);
  });

  it("is content with what it said to change", async () => {
    const args = ["--platform", "kubernetes", "--processing-time", "40s"];
    assertMatch(
      (await find("drain", ...args)).change,
      /--shutdown-timeout 42s with terminationGracePeriodSeconds: 44 /,
    );
    const { code, out } = await lastcall(
      ["doctor", ...args, "--shutdown-timeout", "42s", "--grace", "44s"],
    );
    assertEquals(code, 0, out);
    assertStringIncludes(out, "all well");
  });

  it("exits 0 with warnings alone", async () => {
    const { code, out } = await lastcall(["doctor", "--mailbox", "memory:"]);
    assertEquals(code, 0);
    assertMatch(out, /warning +engine +memory: is a mailbox of one process/);
    assertMatch(out, /0 problems, 1 warning\n$/);
  });

  it("gives programs one finding a line with --json", async () => {
    const { code, json, err } = await lastcall(["doctor", "--grace", "10s", "--json"]);
    assertEquals(code, 1);
    assertEquals(json.map(({ check }) => check), [
      ...["platform", "grace", "unready", "drain", "visibility", "lease", "watchdog", "runtime"],
    ]);
    assertEquals(JSON.parse(err).error, { message: "1 problem: grace", code: "failed" });
  });

  it("finds the platform by its variable, and believes the flag before that", async () => {
    const env = { KUBERNETES_SERVICE_HOST: "10.0.0.1" };
    const found = await lastcall(["doctor"], { env });
    assertStringIncludes(found.out, "(KUBERNETES_SERVICE_HOST is set)");
    const named = await lastcall(["doctor", "--platform", "systemd"], { env });
    assertMatch(named.out, /systemd sends SIGTERM and kills after 90 s\n/);
  });

  it("takes settings from the environment that run has too", async () => {
    process.env["LASTCALL_SHUTDOWN_TIMEOUT"] = "7s";
    try {
      assertStringIncludes((await find("drain")).found, "= 7 s");
    } finally {
      delete process.env["LASTCALL_SHUTDOWN_TIMEOUT"];
    }
  });

  it("knows leases that are not kept, and a watchdog that is off", async () => {
    assertEquals((await find("visibility", "--no-lease")).level, "warning");
    assertEquals((await find("watchdog", "--watchdog-threshold", "off")).level, "warning");
  });

  it("looks for the module and does not load it", async () => {
    const path = join(folder, "worker.mjs");
    writeFileSync(path, "throw new Error('loaded');");
    assertEquals((await find("runtime", path)).level, "ok");
    assertEquals((await find("runtime", join(folder, "none.mjs"))).level, "problem");
  });

  it("refuses what it does not understand as wrong usage", async () => {
    for (
      const args of [
        ["--platform", "mainframe"],
        ["--grace", "long"],
        ["--health-port", "70000"],
        ["one.ts", "two.ts"],
      ]
    ) assertEquals((await lastcall(["doctor", ...args])).code, 2, args.join(" "));
  });

  it("is coloured for a person alone", async () => {
    const { out } = await lastcall(["doctor"], { interactive: true });
    assertStringIncludes(out, "\x1b[32mok     \x1b[0m");
    const plain = await lastcall(["doctor"], { interactive: true, env: { NO_COLOR: "1" } });
    assertEquals(plain.out.includes("\x1b"), false);
  });
});

describe("lastcall doctor, of the port", () => {
  const at = (port: number) =>
    find("port", "--health-host", "127.0.0.1", "--health-port", `${port}`);

  it("finds it free, and leaves it so", async () => {
    const port = await freePort();
    for (let i = 0; i < 2; i++) assertEquals((await at(port)).level, "ok");
  });

  it("tells a stranger that has it from a worker that does", async () => {
    const stranger = createServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
    await once(stranger, "listening");
    const { port } = stranger.address() as { readonly port: number };
    assertEquals((await at(port)).level, "problem");
    stranger.close();
    await once(stranger, "close");
    await using worker = await startWorker();
    const finding = await at(worker.port);
    assertEquals(finding.level, "warning");
    assertStringIncludes(finding.found, "by a group of lastcall");
  });

  it("finds an address that this machine does not have", async () => {
    const finding = await find("port", "--health-host", "192.0.2.1", "--health-port", "0");
    assertEquals(finding.level, "problem");
  });
});

describe("lastcall doctor, of the engine", () => {
  const of = (url: string) => find("engine", "--mailbox", url);

  it("counts the messages of a file", async () => {
    const url = `sqlite:${join(folder, "jobs.db")}`;
    const mailbox = await openMailbox(url, { log: silentLog });
    await mailbox.send("tea");
    await mailbox.close();
    const { level, found } = await of(url);
    assertEquals(level, "ok");
    assertMatch(found, /answers in .*: 1 message, 0 dead letters/);
  });

  it("does not make a file, and says whether it could be made", async () => {
    const path = join(folder, "new.db");
    assertEquals((await of(`sqlite:${path}`)).level, "ok");
    assertEquals(existsSync(path), false);
    const nowhere = await of(`sqlite:${join(folder, "no", "where", "x.db")}`);
    assertEquals(nowhere.level, "problem");
    assertMatch(nowhere.change, /^mkdir -p .*where$/);
  });

  it("finds a folder that cannot be written to", {
    skip: process.getuid?.() === 0 && "root may write everywhere",
  }, async () => {
    const locked = join(folder, "locked");
    mkdirSync(locked);
    chmodSync(locked, 0o500);
    assertStringIncludes(
      (await of(`sqlite:${join(locked, "x.db")}`)).found,
      "cannot be written to",
    );
    chmodSync(locked, 0o700);
  });

  it("finds a server that is away, and names no password", async () => {
    const { level, found } = await of(`redis://:secret@127.0.0.1:${await freePort()}`);
    assertEquals(level, "problem");
    assertEquals(found.includes("secret"), false);
  });

  it("finds a URL that is none", async () => {
    for (const url of ["jobs.db", "ftp://host", "sqlite:x.db?size=1"]) {
      assertEquals((await of(url)).level, "problem", url);
    }
  });

  it("reaches Redis", redis.gate, async () => {
    const { level, found } = await of(`${redis.url}?queue=${redis.uniqueName()}`);
    assertEquals([level, /answers in .*: 0 messages/.test(found)], ["ok", true]);
  });

  it("makes no tables in PostgreSQL", postgres.options, async () => {
    const schema = postgres.ownSchema();
    for (let i = 0; i < 2; i++) {
      const { level, found } = await of(`${postgres.url}?schema=${schema}`);
      assertEquals(level, "ok");
      assertStringIncludes(found, "its tables will be made");
    }
  });
});
