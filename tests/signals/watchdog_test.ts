import { describe, it } from "node:test";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { Child } from "./_child.ts";

describe("the watchdog", () => {
  it("the watchdog kills a process whose event loop is blocked, and names the loop", async () => {
    await using child = Child.start("blocked_later");
    const { code, signal, stdout, stderr } = await child.exit();
    assertEquals([code, signal, stdout], [null, "SIGKILL", "ready\n"]);
    assertMatch(stderr, /event loop is blocked for \d+ ms, and with it "blocked" \(\d+ ms\)/);
  });

  it("the watchdog kills a process whose first step blocks the event loop, and names the loop", async () => {
    await using child = Child.start("blocked");
    const { code, signal, stdout, stderr } = await child.exit();
    assertEquals([code, signal, stdout], [null, "SIGKILL", "ready\n"]);
    assertMatch(stderr, /event loop is blocked for \d+ ms, and with it "blocked" \(\d+ ms\)/);
  });

  it("the watchdog kills a process with a stalled loop, and names only that loop", async () => {
    await using child = Child.start("stalled");
    const { code, signal, stdout, stderr } = await child.exit();
    assertEquals([code, signal, stdout], [null, "SIGKILL", "ready\n"]);
    assertMatch(stderr, /no sign of life from "stalled" \(\d+ ms\): ending the process/);
    assert(!stderr.includes("lively"));
  });

  it("the watchdog does not kill a process that was suspended for longer than the threshold", async () => {
    await using child = Child.start("suspended");
    await child.line("ready");
    child.kill("SIGSTOP");
    await new Promise((resolve) => setTimeout(resolve, 700));
    child.kill("SIGCONT");
    await child.line("alive");
    child.kill("SIGTERM");
    const { code, stdout, stderr } = await child.exit();
    assertEquals([code, stdout, stderr], [0, "ready\nalive\n", ""]);
  });
});
