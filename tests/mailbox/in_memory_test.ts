import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { mailboxCases, type MakeMailbox, skippedMailboxCases } from "../../src/testing/mod.ts";
import { VirtualClock } from "../../src/testing/virtual_clock.ts";

const make: MakeMailbox = (options) => {
  const clock = new VirtualClock();
  return {
    mailbox: new InMemoryMailbox<unknown>("orders", { ...options, clock }),
    tickMs: 1_000,
    pass: (ms) => clock.advance(ms),
    close: () => Promise.resolve(assertEquals(clock.pending, 0, "timers are left")),
  };
};

describe("InMemoryMailbox", () => {
  for (const { topic, name, run } of mailboxCases) it(`${topic}: ${name}`, () => run(make));

  it("shows every case that needs no second view and no codec", async () => {
    const skipped = await skippedMailboxCases(make);
    const reasons = new Set(skipped.map(({ why }) => why));
    assertEquals([...reasons].sort(), [
      "there is no maxBodyBytes",
      "there is no sendRaw",
      "there is no sibling",
    ]);
  });
});
