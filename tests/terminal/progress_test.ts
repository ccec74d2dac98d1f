import { it } from "node:test";
import { assertEquals } from "@std/assert";
import { TerminalProcess, whyNoScreen } from "./_screen.ts";

it("showProgress updates one line of the terminal", {
  skip: whyNoScreen() ?? false,
}, async () => {
  await using child = TerminalProcess.start("progress");
  assertEquals(await child.exit(), 0);
  const lines = child.screen.lines.filter((line) => line !== "");
  assertEquals(lines, ["capitals: 10/10 samples · 50.0 % passed"]);
});
