import { describe, it } from "node:test";
import { assertEquals, assertMatch } from "@std/assert";
import { Child } from "./_child.ts";

describe("a signal", () => {
  it("SIGTERM stops an idle group immediately: drained, exit code 0", async () => {
    await using child = Child.start("idle");
    await child.line("ready");
    child.kill("SIGTERM");
    const { code, stdout, stderr } = await child.exit();
    assertMatch(stdout, /^ready\ndrained in \d+ ms of 30\.0 s \(SIGTERM\), exit code 0\n/);
    assertEquals([code, stderr], [0, ""]);
  });

  it("SIGINT stops an idle group immediately: drained, exit code 0", async () => {
    await using child = Child.start("idle");
    await child.line("ready");
    child.kill("SIGINT");
    const { code, stdout, stderr } = await child.exit();
    assertMatch(stdout, /^ready\ndrained in \d+ ms of 30\.0 s \(SIGINT\), exit code 0\n/);
    assertEquals([code, stderr], [0, ""]);
  });

  it("a signal lets work in flight finish", async () => {
    await using child = Child.start("busy");
    await child.line("ready");
    child.kill("SIGTERM");
    const { code, stdout, stderr } = await child.exit();
    assertEquals([code, stdout, stderr], [0, "ready\nstopping\nfinished\n", ""]);
  });

  for (const second of ["SIGINT", "SIGTERM"] as const) {
    it(`SIGINT and ${second} within a moment count as one signal`, async () => {
      await using child = Child.start("double_signal", { args: [second] });
      await child.line("ready");
      child.kill("SIGINT");
      const { code, stdout, stderr } = await child.exit();
      assertEquals([code, stdout, stderr], [0, "ready\nfinished\n", ""]);
    });
  }

  it("a handler can stop its own group: drained immediately, exit code 0", async () => {
    await using child = Child.start("self_stop");
    const { code, stdout, stderr } = await child.exit();
    assertEquals([code, stdout, stderr], [0, "stop false\n", ""]);
  });

  it("a signal stops a loop whose shutdown is registered, and the process ends by itself", async () => {
    await using child = Child.start("single_loop");
    await child.line("ready");
    child.kill("SIGTERM");
    const { code, stdout, stderr } = await child.exit();
    assertEquals([code, stdout, stderr], [0, "ready\nfinished\nafter run\n", ""]);
  });
});
