import { test } from "node:test";
import { assertEquals } from "@std/assert";
import { Child } from "./_child.ts";

test("the README's first program works, and stops well", async () => {
  await using child = Child.start("readme");
  await child.line("packing order 1");
  child.kill("SIGTERM");
  const { code, stderr } = await child.exit();
  assertEquals([code, stderr], [0, ""]);
});
