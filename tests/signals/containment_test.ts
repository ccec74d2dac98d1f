import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { Child } from "./_child.ts";

describe("a process whose log and listeners fail and whose handler throws a value without text", () => {
  for (const how of ["throwing", "rejecting"]) {
    it(`a process handles the next message and stops by SIGTERM, exit code 0: ${how}`, async () => {
      await using child = Child.start("hostile", { args: [how] });
      await child.line("ready");
      child.kill("SIGTERM");
      const { code, stderr } = await child.exit();
      assertEquals([code, stderr], [0, ""]);
    });

    it(`a process ends when a loop fails, exit code 1: ${how}`, async () => {
      await using child = Child.start("hostile", { args: [how, "failing"] });
      const { code, stderr } = await child.exit();
      assertEquals([code, stderr], [1, ""]);
    });
  }
});
