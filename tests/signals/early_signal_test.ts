import { describe, it } from "node:test";
import { assertEquals, assertStringIncludes } from "@std/assert";
import { Child } from "./_child.ts";

describe("an early signal", () => {
  it("during a slow start-up starts no loop, and stops the resources that began", async () => {
    await using child = Child.start("slow_start");
    await child.line("starting");
    child.kill("SIGTERM");
    const { code, stdout, stderr } = await child.exit();
    assertEquals([code, stdout, stderr], [0, "starting\nstarted\nsupport stopped\n", ""]);
  });

  it("during a start-up that never ends is bounded, and the resources is named", async () => {
    await using child = Child.start("hung_start");
    await child.line("ready");
    child.kill("SIGTERM");
    const { code, stdout, stderr } = await child.exit();
    assertEquals([code, stdout], [124, "ready\n"]);
    assertStringIncludes(stderr, 'not ended: resource "database"');
  });

  it("before run() makes it return at once, without a step", async () => {
    await using child = Child.start("slow_set_up");
    await child.line("ready");
    child.kill("SIGTERM");
    const { code, stdout, stderr } = await child.exit();
    assertEquals([code, stdout, stderr], [0, "ready\nset up\n", ""]);
  });
});
