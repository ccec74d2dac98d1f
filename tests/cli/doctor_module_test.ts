import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, describe, it } from "node:test";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { processShare } from "../../src/lifecycle/process_share.ts";
import { Child } from "../signals/_child.ts";
import { lastcall } from "./_io.ts";

const folder = mkdtempSync(join(tmpdir(), "lastcall-doctor-module-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const root = new URL("../../", import.meta.url).href;
let modules = 0;

/**
 * Writes a module with the imports that the cases need, under a new name: runtimes load a path once. The
 * modules do not await main(), because Deno fails tests that leave such a module behind; that of the README does.
 */
function write(code: string): string {
  const path = join(folder, `worker${modules++}.mjs`);
  writeFileSync(
    path,
    `import { InMemoryMailbox, LoopGroup, MailboxLoop, StepLoop } from "${root}mod.ts";\n${code}`,
  );
  return path;
}

/** Checks a module, and returns its findings by `check`, or by `loop check`. */
async function examine(code: string, ...flags: readonly string[]) {
  const { code: exitCode, json, err } = await lastcall(["doctor", write(code), "--json", ...flags]);
  // deno-lint-ignore no-explicit-any -- as JSON.parse has it
  const all: Record<string, any> = {};
  for (const it of json) all[it.loop === undefined ? it.check : `${it.loop} ${it.check}`] = it;
  return { exitCode, all, err };
}

const jobs = () => `sqlite:${join(folder, `jobs${modules}.db`)}`;

/** A loop whose handler tells that it was called. */
const loop = (options: string) =>
  `new MailboxLoop({ handler() { globalThis.doctorRan = true; }, ${options} })`;

describe("lastcall doctor with a module", () => {
  it("the doctor reads the settings of a group whose main() the module calls", async () => {
    const url = jobs();
    const { exitCode, all } = await examine(
      `await new LoopGroup([${loop(`mailbox: "${url}", concurrency: 7, prefetch: 3`)}], {
         shutdownTimeoutMs: 25_000, watchdogThresholdMs: 60_000,
       }).main().finally(() => globalThis.doctorRan = true);`,
      ...["--platform", "kubernetes"],
    );
    assertEquals(exitCode, 0);
    assertStringIncludes(all["grace"].found, "a shutdown may take 25 s of a grace period of 30 s");
    assertStringIncludes(all["watchdog"].found, "silent for 60 s");
    assertEquals(all["default concurrency"].found, "7 at a time, 3 received ahead");
    assertStringIncludes(all["default engine"].found, "the worker creates");
    assertEquals([existsSync(url.slice("sqlite:".length)), "doctorRan" in globalThis], [
      false,
      false,
    ]);
  });

  it("the doctor names options in code, not flags, in what it recommends", async () => {
    const { exitCode, all } = await examine(
      `new LoopGroup([${loop('mailbox: "memory:"')}]).run();`,
      ...["--platform", "kubernetes"],
    );
    assertEquals(exitCode, 1);
    assertMatch(all["grace"].change, /^`shutdownTimeoutMs: 28000`; or terminationGracePeriod/);
  });

  it("the doctor waits for a main() that the program calls after it was loaded", async () => {
    const { all } = await examine(
      `setTimeout(() => new LoopGroup([new StepLoop("late", () => {})]).main(), 50);`,
    );
    assertStringIncludes(all["module"].found, "runs late");
  });

  it("the doctor checks every group of a program", async () => {
    const group = (name: string) => `new LoopGroup([new StepLoop("${name}", () => {})]).main()`;
    const { all } = await examine(`${group("one")};
       for (let i = 0; i < 20; i++) await null;
       ${group("two")};`);
    assertStringIncludes(all["module"].found, "runs one, two");
  });

  it("the doctor checks each loop: leases, dead letters, own timeout, prefetch", async () => {
    const { exitCode, all } = await examine(
      `const mailbox = new InMemoryMailbox("m");
       export default new LoopGroup([
         ${
        loop(
          'name: "a", mailbox, deadLetter: false, lease: { intervalMs: 250_000, adaptive: false }',
        )
      },
         ${
        loop('name: "b", mailbox, deadLetter: { maxDeliveries: 1 }, lease: { intervalMs: 250_000 }')
      },
         ${loop('name: "c", mailbox, prefetch: 4, lease: false, visibilityTimeoutMs: 30_000')},
         new StepLoop("d", () => {}, { shutdownTimeoutMs: 60_000 }),
       ]);`,
      ...["--processing-time", "10s"],
    );
    assertEquals(exitCode, 1);
    const levels = Object.entries(all).filter(([, { level }]) => level !== "ok");
    assertEquals(levels.map(([name, { level }]) => `${level} ${name}`), [
      "warning a lease",
      "warning a dead-letter",
      "warning a engine",
      "warning b dead-letter",
      "warning b engine",
      "problem c concurrency",
      "warning c engine",
      "warning d drain",
    ]);
  });

  it("the doctor uses the flags of run for a handler, also those of its loop", async () => {
    const flags = ["--mailbox", jobs(), "--shutdown-timeout", "7s", "--concurrency", "5"];
    const { exitCode, all } = await examine(
      "export const options = { name: 'mails', visibilityTimeoutMs: 45_000 }; export default () => {};",
      ...flags,
    );
    assertEquals(exitCode, 0);
    assertStringIncludes(all["grace"].found, "7 s");
    assertStringIncludes(all["mails visibility"].found, "45 s");
    assertEquals(
      all["mails concurrency"].found,
      "5 at a time, up to 20 ms of work received ahead",
    );
  });

  it("the doctor warns about a handler without a mailbox", async () => {
    const { exitCode, all } = await examine("export default () => {};");
    assertEquals([exitCode, all["engine"].level], [0, "warning"]);
  });

  it("the doctor ignores environment variables for a group in code, and refuses flags", async () => {
    process.env["LASTCALL_SHUTDOWN_TIMEOUT"] = "7s";
    process.env["LASTCALL_HEALTH_PORT"] = "1";
    try {
      const code = `new LoopGroup([new StepLoop("s", () => {})]).main();`;
      const { exitCode, all } = await examine(code);
      assertStringIncludes(all["grace"].found, "30 s");
      assertEquals([exitCode, all["port"]], [0, undefined]);
      for (const flag of ["--shutdown-timeout=3s", "--visibility-timeout=3s", "--no-lease"]) {
        const { exitCode, err } = await examine(code, flag);
        assertEquals(exitCode, 2);
        assertStringIncludes(err, "has no effect here");
      }
    } finally {
      delete process.env["LASTCALL_SHUTDOWN_TIMEOUT"];
      delete process.env["LASTCALL_HEALTH_PORT"];
    }
  });

  it("the doctor does not run a loop without a group, and warns about it", async () => {
    const { all } = await examine(
      `new StepLoop("alone", () => { globalThis.doctorRan = true; }).run();`,
    );
    assertEquals([all["group"].level, "doctorRan" in globalThis], ["warning", false]);
  });

  it("the doctor asks the mailbox that the module has opened, and closes it", async () => {
    const url = jobs();
    const { all } = await examine(
      `import { openMailbox } from "${root}mod.ts";
       export const mailbox = globalThis.doctorMailbox = await openMailbox("${url}");
       await mailbox.send("tea");
       new LoopGroup([${loop("mailbox")}]).main();`,
    );
    assertMatch(all["default engine"].found, /answers in .*: 1 message, 0 dead letters/);
    const { doctorMailbox } = globalThis as { doctorMailbox?: { readonly closed: boolean } };
    assertEquals(doctorMailbox?.closed, true);
  });

  it("the doctor reports an engine that cannot send a slot once", async () => {
    const { all } = await examine(
      `const mailbox = {
         name: "m", engine: "Other", capabilities: { dedupWindow: false },
         stats: () => ({ waiting: 0 }), approximateCount: () => 0, close() {},
       };
       const cron = new StepLoop("cron", () => {});
       Object.defineProperty(cron, "settings", { value: { mailbox, dedupMs: 1000 } });
       export default [cron];`,
    );
    assertEquals(all["cron capabilities"].level, "problem");
  });

  it("the doctor reports a module that throws, with its message", async () => {
    const { exitCode, all } = await examine(`throw new TypeError("no settings file");`);
    assertEquals([exitCode, all["module"].level], [1, "problem"]);
    assertStringIncludes(all["module"].found, "TypeError: no settings file");
  });

  it("the doctor reports a module that runs nothing within --load-timeout", async () => {
    for (
      const code of [
        "export const a = 1;",
        "await new Promise((resolve) => setTimeout(resolve, 500));",
      ]
    ) {
      const { exitCode, all } = await examine(code, "--load-timeout", "50ms");
      assertEquals([exitCode, all["module"].level], [1, "problem"]);
      assertMatch(all["module"].found, /no group or loop was told to run within 50 ms$/);
    }
  });

  it("the doctor stops the main() of an older copy before it starts, and says so", async () => {
    const { mains } = processShare();
    // What main() of version 0.1 does first.
    const { exitCode, all } = await examine(
      `async function main() {
         globalThis[Symbol.for("lastcall.process.v1")].mains++;
         globalThis.doctorRan = true;
       }
       await main();`,
    );
    assertEquals([exitCode, "doctorRan" in globalThis], [1, false]);
    assertStringIncludes(all["module"].found, "uses an older copy of lastcall");
    assertEquals([processShare().mains, processShare().inspect], [mains, undefined]);
    processShare().mains++; // a group can run again
    processShare().mains--;
  });

  it("the doctor in a process checks the program of the README", async () => {
    const readme = readFileSync(new URL("README.md", root), "utf8");
    const [, program = ""] = /<!-- file: worker.mts -->\s+```ts ignore\n(.*?)```/s.exec(readme) ??
      [];
    assertStringIncludes(program, ".main()");
    const path = join(folder, "readme.mts");
    writeFileSync(path, program.replace(/"(@lastcall\/)?lastcall"/, `"${root}mod.ts"`));
    const args = ["doctor", path, "--platform", "kubernetes", "--json"];
    await using doctor = Child.start("../../../cli/mod", { args, cwd: folder });
    const { code, stdout, stderr } = await doctor.exit();
    assertEquals({ code, stderr }, { code: 0, stderr: "" });
    assertStringIncludes(stdout, "a shutdown may take 25 s of a grace period of 30 s");
    assertStringIncludes(stdout, `the worker creates ${join(folder, "jobs.db")}`);
  });
});
