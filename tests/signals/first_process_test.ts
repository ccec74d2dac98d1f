import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import process from "node:process";
import { describe, it } from "node:test";
import { assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { Child } from "./_child.ts";

/** Starts a program as the first process of a namespace, as containers do. */
const wrapper = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
const [unshare = "", ...args] = wrapper;
const skip = spawnSync(unshare, [...args, "true"]).status !== 0 &&
  "needs root and unshare(1)";

describe("as the first process of a container", () => {
  it("SIGTERM drains the first process of a container, exit code 0", { skip }, async () => {
    await using child = Child.start("busy", { wrapper });
    await child.line("ready");
    process.kill(onlyChildOf(child.pid), "SIGTERM");
    const { code, stdout, stderr } = await child.exit();
    assertEquals([code, stdout, stderr], [0, "ready\nstopping\nfinished\n", ""]);
  });

  it("a stalled loop ends a first process, which ignores its own SIGKILL", { skip }, async () => {
    await using child = Child.start("stalled", { wrapper });
    const { code, signal, stderr } = await child.exit();
    assertEquals([code, signal], [137, null]);
    assertMatch(stderr, /no sign of life from "stalled"/);
  });

  it("a blocked event loop ends a first process by a CPU limit", {
    skip: skip || spawnSync("prlimit", ["--version"]).status !== 0 && "needs prlimit(1)",
  }, async () => {
    await using child = Child.start("blocked", { wrapper });
    // It would go on for ever; unshare(1) does not tell by which signal its child ended.
    const { code, stderr } = await child.exit();
    assertNotEquals(code, 0);
    assertMatch(stderr, /the event loop is blocked for \d+ ms, and with it "blocked"/);
  });
});

function onlyChildOf(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim());
}
