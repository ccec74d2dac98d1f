import { test } from "node:test";
import { assertEquals } from "@std/assert";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { Child } from "../signals/_child.ts";

test("a loop that stops before the thread for its leases has begun warns of nothing", async () => {
  using folder = new TempFolder();
  await using child = Child.start("../../lease/fixtures/short_run", {
    args: [folder.file("short.db")],
  });
  const { code, stderr } = await child.exit();
  assertEquals([code, stderr], [0, ""]);
});
