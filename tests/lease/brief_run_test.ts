import { it } from "node:test";
import { assertEquals } from "@std/assert";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { Child } from "../signals/_child.ts";

it("a run that is over before its thread has started has nothing to warn of", async () => {
  using folder = new TempFolder();
  await using child = Child.start("../../lease/fixtures/brief", {
    args: [`sqlite:${folder.file()}`],
  });
  const { code, stdout, stderr } = await child.exit();
  assertEquals([code, stdout, stderr], [0, "acknowledged 1\n", ""]);
});
