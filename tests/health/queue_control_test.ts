import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import type { Status } from "../../src/health/mod.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { FULL_CAPABILITIES } from "../../src/mailbox/mailbox.ts";
import { Fixture } from "./_fixture.ts";

async function statusOf(app: ReturnType<Fixture["app"]>): Promise<Status> {
  return await (await app.request("/status")).json();
}

describe("the status of a mailbox that all processes share", () => {
  it("/status has the time that is left of a pause, and the rate limit", async () => {
    const fixture = new Fixture();
    const { clock } = fixture;
    const other = new InMemoryMailbox<string>("other", { clock });
    await other.pause({ forMs: 30_000 });
    await other.rateLimit({ max: 10, perMs: 500 });
    await clock.advance(12_000);
    const app = fixture.app({ mailboxes: [other] });
    const read = async () => {
      const { mailboxes: [mailbox] } = await statusOf(app);
      return [mailbox?.paused, mailbox?.pausedForMs, mailbox?.rateLimit];
    };
    assertEquals(await read(), [true, 18_000, { max: 10, perMs: 500 }]);
    await other.rateLimit(false);
    await clock.advance(18_000);
    await read(); // answers by the last answer, and asks again
    await clock.settle();
    assertEquals(await read(), [false, undefined, undefined]);
  });

  it("/status tells whether an engine notices dead workers, also when that changes", async () => {
    const fixture = new Fixture();
    const other = new InMemoryMailbox<string>("other", { clock: fixture.clock });
    let ownerDetection = false; // until the first receive
    Object.defineProperty(other, "capabilities", {
      get: () => ({ ...FULL_CAPABILITIES, ownerDetection }),
    });
    const app = fixture.app({ mailboxes: [other] });
    assertEquals((await statusOf(app)).mailboxes[0]?.ownerDetection, false);
    ownerDetection = true;
    assertEquals((await statusOf(app)).mailboxes[0]?.ownerDetection, true);
  });
});
