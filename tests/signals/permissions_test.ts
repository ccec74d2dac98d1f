import { describe, it } from "node:test";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { Child, runtimeName } from "./_child.ts";

const runFlags = ["run", "--no-prompt"];
const skip = runtimeName !== "deno" && "only Deno has permissions";

describe("without any permission, on Deno", () => {
  it("a signal stops the group", { skip }, async () => {
    await using child = Child.start("idle", { runFlags });
    await child.line("ready");
    child.kill("SIGTERM");
    const { code, stderr } = await child.exit();
    assertEquals([code, stderr], [0, ""]);
  });

  it("the host name is not read", { skip }, async () => {
    await using child = Child.start("identity", { runFlags: [...runFlags, "--deny-sys"] });
    const { code, stdout, stderr } = await child.exit();
    assertEquals([code, stdout.trim(), stderr], [0, '["pid"]', ""]);
  });

  it("a blocked event loop is killed", { skip }, async () => {
    await using child = Child.start("blocked_later", { runFlags });
    const { code, signal, stderr } = await child.exit();
    assertEquals([code, signal], [null, "SIGKILL"]);
    assertMatch(stderr, /event loop is blocked for \d+ ms, and with it "blocked"/);
  });

  it("a stalled loop is killed", { skip }, async () => {
    await using child = Child.start("stalled", { runFlags });
    const { code, signal, stderr } = await child.exit();
    assertEquals([code, signal], [null, "SIGKILL"]);
    assertMatch(stderr, /no sign of life from "stalled"/);
  });
});

describe("without the permission to start threads, on Node", () => {
  it("a group runs without threads and logs once what is missing", {
    skip: runtimeName !== "node" && "only Node has this permission",
  }, async () => {
    using folder = new TempFolder();
    const runFlags = ["--permission", "--allow-fs-read=*", "--allow-fs-write=*"];
    await using child = Child.start("two_mailboxes", { runFlags, args: [folder.path] });
    await child.line("orders ready");
    await child.line("mails ready");
    child.kill("SIGTERM");
    const { code, stderr } = await child.exit();
    assertEquals(code, 0, stderr);
    for (
      const sentence of [
        "The watchdog cannot start its thread and will not notice a blocked event loop",
        "lease thread could not start; a handler that blocks may lose its lease",
      ]
    ) assertEquals(stderr.split(sentence).length - 1, 1, `${sentence}\n${stderr}`);
    assertStringIncludes(stderr, "--allow-worker");
  });
});
