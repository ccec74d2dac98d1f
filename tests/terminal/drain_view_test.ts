import { describe, it } from "node:test";
import { assertEquals, assertFalse, assertMatch } from "@std/assert";
import { gap } from "../signals/_child.ts";
import { Seat, whyNoScreen } from "./_screen.ts";

const skip = whyNoScreen() ?? false;

describe("a stop on a terminal", { skip }, () => {
  it("shows phase, time left, work in flight and the effect of a second Ctrl+C", async () => {
    await using seat = Seat.start("busy_kitchen");
    await seat.shows(/the kitchen is busy/);
    seat.interrupt();
    await seat.shows(/^draining ━+─* \d\d\.\d s left of 1 min 0 s · \d in flight · SIGINT$/m);
    await seat.shows(/^ {2}kitchen {2}roast +\d\.\d s$/m);
    await seat.shows(/^press Ctrl\+C again to cancel work in flight$/m);
    await seat.shows(/^draining .* 1 in flight · SIGINT$/m);

    // The program keeps printing above the view, and nothing of its output is lost.
    const text = seat.screen.lines.join("\n");
    assertMatch(text, /soup is served\ncake is served\n/);

    await gap();
    seat.interrupt();
    assertEquals(await seat.exit(), 130);
    const end = seat.screen.history.join("\n").trimEnd();
    assertEquals(end.split("exit code 130").length, 2, `the report is printed once:\n${end}`);
    assertMatch(end, /forced in [\d.]+ m?s of 60\.0 s \(SIGINT\), exit code 130\n/);
    assertMatch(end, /kitchen: ended in .*; received 3: 2 acknowledged, 1 released/);
    assertFalse(end.includes("in flight"), "the view is removed");
  });

  it("restores the scroll region when the third Ctrl+C ends the process", async () => {
    await using seat = Seat.start("stubborn_kitchen");
    await seat.shows(/the kitchen is busy/);
    seat.interrupt();
    await seat.shows(/press Ctrl\+C again to cancel/);
    await gap();
    seat.interrupt();
    await seat.shows(/press Ctrl\+C again to exit now/);
    await gap();
    seat.interrupt();
    assertEquals(await seat.exit(), 130);
    assertFalse(seat.screen.lines.join("\n").includes("press Ctrl+C"));
    await seat.screen.write(Array.from({ length: 40 }, (_, at) => `line ${at}\r\n`).join(""));
    assertEquals(seat.screen.lines.at(-2), "line 39", "the whole screen scrolls again");
  });

  it("has no colours with NO_COLOR", async () => {
    await using seat = Seat.start("busy_kitchen", { NO_COLOR: "1" });
    await seat.shows(/the kitchen is busy/);
    seat.interrupt();
    await seat.shows(/1 in flight/);
    assertFalse(seat.colored);
    await gap();
    seat.interrupt();
    assertEquals(await seat.exit(), 130);
  });

  it("is shown as JSON lines on a dumb terminal", async () => {
    await using seat = Seat.start("busy_kitchen", { TERM: "dumb" });
    await seat.shows(/the kitchen is busy/);
    seat.interrupt();
    await seat.shows(/"source":"lastcall","event":"phase"/);
    await gap();
    seat.interrupt();
    assertEquals(await seat.exit(), 130);
  });
});
