import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { skippedMailboxCases } from "../../src/testing/mod.ts";
import { hostMailboxCases, onVirtualClock } from "./_hosts.ts";

const make = onVirtualClock((options) => new InMemoryMailbox<unknown>("orders", options));

describe("InMemoryMailbox", () => {
  hostMailboxCases(make);

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
