import { describe, it } from "node:test";
import { assertEquals, assertFalse, assertMatch } from "@std/assert";
import { gap } from "../signals/_child.ts";
import { TerminalProcess, whyNoScreen } from "./_screen.ts";

const skip = whyNoScreen() ?? false;

describe("a stop on a terminal", { skip }, () => {
  it("a stop on a terminal shows phase, time left, work in flight and the effect of a second Ctrl+C", async () => {
    await using child = TerminalProcess.start("busy");
    await child.shows(/the kitchen is busy/);
    child.interrupt();
    await child.shows(/^draining ━+─* \d\d\.\d s left of 1 min 0 s · \d in flight · SIGINT$/m);
    await child.shows(/^ {2}kitchen {2}roast +\d\.\d s$/m);
    await child.shows(/^press Ctrl\+C again to cancel work in flight$/m);
    await child.shows(/^draining .* 1 in flight · SIGINT$/m);

    // The program keeps printing above the view, and nothing of its output is lost.
    const text = child.screen.lines.join("\n");
    assertMatch(text, /soup is served\ncake is served\n/);

    await gap();
    child.interrupt();
    assertEquals(await child.exit(), 130);
    const end = child.screen.history.join("\n").trimEnd();
    assertEquals(end.split("exit code 130").length, 2, `the report is printed once:\n${end}`);
    assertMatch(end, /forced in [\d.]+ m?s of 60\.0 s \(SIGINT\), exit code 130\n/);
    assertMatch(end, /kitchen: ended in .*; received 3: 2 acknowledged, 1 released/);
    assertFalse(end.includes("in flight"), "the view is removed");
  });

  it("a stop on a terminal restores the scroll region when the third Ctrl+C ends the process", async () => {
    await using child = TerminalProcess.start("stubborn");
    await child.shows(/the kitchen is busy/);
    child.interrupt();
    await child.shows(/press Ctrl\+C again to cancel/);
    await gap();
    child.interrupt();
    await child.shows(/press Ctrl\+C again to exit now/);
    await gap();
    child.interrupt();
    assertEquals(await child.exit(), 130);
    assertFalse(child.screen.lines.join("\n").includes("press Ctrl+C"));
    await child.screen.write(Array.from({ length: 40 }, (_, at) => `line ${at}\r\n`).join(""));
    assertEquals(child.screen.lines.at(-2), "line 39", "the whole screen scrolls again");
  });

  it("a stop on a terminal has no colours with NO_COLOR", async () => {
    await using child = TerminalProcess.start("busy", { NO_COLOR: "1" });
    await child.shows(/the kitchen is busy/);
    child.interrupt();
    await child.shows(/1 in flight/);
    assertFalse(child.colored);
    await gap();
    child.interrupt();
    assertEquals(await child.exit(), 130);
  });

  it("a stop on a terminal is shown as JSON lines on a dumb terminal", async () => {
    await using child = TerminalProcess.start("busy", { TERM: "dumb" });
    await child.shows(/the kitchen is busy/);
    child.interrupt();
    await child.shows(/"source":"lastcall","event":"phase"/);
    await gap();
    child.interrupt();
    assertEquals(await child.exit(), 130);
  });
});
