import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { Child } from "./_child.ts";

describe("cleanup", () => {
  it("SIGTERM has its default effect after reset()", async () => {
    await using child = Child.start("after_reset");
    await child.line("ready");
    child.kill("SIGTERM");
    const { code, signal, stdout } = await child.exit();
    assertEquals([code, signal, stdout], [null, "SIGTERM", "ready\n"]);
  });

  it("SIGTERM has its default effect after a run that ended by itself", async () => {
    await using child = Child.start("after_run");
    await child.line("ready");
    child.kill("SIGTERM");
    const { code, signal, stdout } = await child.exit();
    assertEquals([code, signal, stdout], [null, "SIGTERM", "finished\nready\n"]);
  });

  it("the process ends by itself after run(), and not before", async () => {
    await using child = Child.start("pending");
    await child.line("still here");
    child.kill("SIGTERM");
    const { code, stdout, stderr } = await child.exit();
    assertEquals([code, stdout, stderr], [0, "still here\ndrained\n", ""]);
  });

  it("the group has stopped after `await using`, and the process ends by itself", async () => {
    await using child = Child.start("block_form");
    const { code, stdout, stderr } = await child.exit();
    assertEquals([code, stderr], [0, ""]);
    assertEquals(stdout, "running\nfinished\nstopped\nshutdown\n");
  });

  it("the process ends by itself after keepAlive() is released, and not before", async () => {
    await using child = Child.start("keep_alive");
    const { code, stdout, stderr } = await child.exit();
    assertEquals([code, stdout, stderr], [0, "still here\nreleased\n", ""]);
  });

  it("the process ends by itself although a watchdog thread was started", async () => {
    for (const fixture of ["thread_left", "thread_stopped"]) {
      await using child = Child.start(fixture);
      const { code, stdout, stderr } = await child.exit();
      assertEquals([code, stdout, stderr], [0, "done\n", ""], fixture);
    }
  });
});
