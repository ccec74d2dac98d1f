import { it } from "node:test";
import { assertEquals } from "@std/assert";
import { Seat, whyNoScreen } from "./_screen.ts";

it("showProgress updates one line of the terminal", {
  skip: whyNoScreen() ?? false,
}, async () => {
  await using seat = Seat.start("progress");
  assertEquals(await seat.exit(), 0);
  const lines = seat.screen.lines.filter((line) => line !== "");
  assertEquals(lines, ["capitals: 10/10 samples · 50.0 % passed"]);
});
