import { it } from "node:test";
import { assertEquals } from "@std/assert";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { Child } from "../signals/_child.ts";

it("a run that ends before its thread has started logs no warning", async () => {
  using folder = new TempFolder();
  await using child = Child.start("../../lease/fixtures/brief", {
    args: [`sqlite:${folder.file()}`],
  });
  const { code, stdout, stderr } = await child.exit();
  assertEquals([code, stdout, stderr], [0, "acknowledged 1\n", ""]);
});
