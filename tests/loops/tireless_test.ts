import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
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

  it("lets timers fire between handlers that compute and could all start at once", async () => {
    const mailbox = new InMemoryMailbox<number>("orders");
    await mailbox.sendMany(Array.from({ length: 100 }, (_, i) => i));
    let handled = 0;
    let handledBefore: number | undefined;
    const loop = new MailboxLoop({
      mailbox,
      concurrency: 100,
      handler: () => {
        if (handled++ === 0) setTimeout(() => handledBefore = handled);
        for (const began = performance.now(); performance.now() - began < 2;);
      },
    });
    await loop.run({ untilEmpty: true });
    assert(handledBefore !== undefined && handledBefore < 50, `${handledBefore} of 100`);
  });
});
