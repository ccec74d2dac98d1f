import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { Child } from "../signals/_child.ts";

const SCENARIOS = [
  "an empty mailbox without a wait",
  "an empty SQLite file without a wait",
  "a handler that sends to its own mailbox",
  "RetryLaterError without a delay",
  "a visibility timeout of 0",
  "a handler that releases its message",
  "a backoff of 0",
  "a long backlog",
];

describe("a loop that is never idle", () => {
  for (const scenario of SCENARIOS) {
    it(`lets timers fire and hears SIGTERM: ${scenario}`, async () => {
      using folder = new TempFolder();
      await using child = Child.start("../../loops/fixtures/tireless", {
        args: [scenario, folder.file()],
      });
      await child.line("timer");
      child.kill("SIGTERM");
      const { code, stdout, stderr } = await child.exit();
      assertEquals([code, stdout], [0, "timer\n"], stderr);
    });
  }
});
