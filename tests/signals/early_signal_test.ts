import { describe, it } from "node:test";
import { assertEquals, assertStringIncludes } from "@std/assert";
import { Child } from "./_child.ts";

describe("an early signal", () => {
  it("a signal during a slow start starts no loop and stops the started resources", async () => {
    await using child = Child.start("slow_start");
    await child.line("starting");
    child.kill("SIGTERM");
    const { code, stdout, stderr } = await child.exit();
    assertEquals([code, stdout, stderr], [0, "starting\nstarted\nresource stopped\n", ""]);
  });

  it("a stop during a start that never ends is bounded and names the resource", async () => {
    await using child = Child.start("hung_start");
    await child.line("ready");
    child.kill("SIGTERM");
    const { code, stdout, stderr } = await child.exit();
    assertEquals([code, stdout], [124, "ready\n"]);
    assertStringIncludes(stderr, 'not ended: resource "database"');
  });

  it("run() returns immediately, without a step, after an earlier signal", async () => {
    await using child = Child.start("slow_set_up");
    await child.line("ready");
    child.kill("SIGTERM");
    const { code, stdout, stderr } = await child.exit();
    assertEquals([code, stdout, stderr], [0, "ready\nset up\n", ""]);
  });
});
