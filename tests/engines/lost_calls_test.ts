import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { LostCalls } from "../../src/engines/_kit/calls.ts";
import { MailboxClosedError } from "../../src/mailbox/errors.ts";
import { VirtualClock } from "../../src/testing/virtual_clock.ts";

/** A server that undoes calls while it can be reached. */
function setUp() {
  const clock = new VirtualClock();
  const server = { away: false, undone: [] as string[] };
  const lost = new LostCalls<string>(clock, 1_200, (calls) => {
    if (server.away) return Promise.reject(new Error("connection lost"));
    server.undone.push(...calls);
    return Promise.resolve();
  });
  return { clock, server, lost };
}

describe("lost calls", () => {
  it("are undone although no receive follows, until they cannot arrive any more", async () => {
    const { clock, server, lost } = setUp();
    lost.add("receive 1");
    await clock.advance(499);
    assertEquals(server.undone, []);
    await clock.advance(1);
    assertEquals(server.undone, ["receive 1"]);
    await clock.advance(10_000);
    assertEquals(server.undone, ["receive 1", "receive 1", "receive 1"]);
    assertEquals([lost.nextLookMs, clock.pending], [Infinity, 0]);
  });

  it("are undone when the server is back", async () => {
    const { clock, server, lost } = setUp();
    server.away = true;
    lost.add("receive 1");
    await clock.advance(60_000);
    assertEquals(server.undone, []);
    server.away = false;
    await clock.advance(500);
    assertEquals(server.undone, ["receive 1"]);
  });

  it("are undone at once by the next receive", async () => {
    const { server, lost } = setUp();
    lost.add("receive 1");
    await lost.look();
    assertEquals([server.undone, lost.nextLookMs], [["receive 1"], 500]);
    lost.stop();
  });

  it("leave no timer behind a connection that was closed", async () => {
    const clock = new VirtualClock();
    const lost = new LostCalls<string>(clock, 1_200, () => {
      return Promise.reject(new MailboxClosedError("this mailbox has closed its connection"));
    });
    lost.add("receive 1");
    await clock.advance(500);
    assertEquals(clock.pending, 0);
    lost.add("receive 2");
    assertEquals(clock.pending, 0);
  });

  it("leave no timer behind a close", async () => {
    const { clock, server, lost } = setUp();
    lost.add("receive 1");
    lost.stop();
    await lost.look(true);
    assertEquals([server.undone, clock.pending], [["receive 1"], 0]);
  });
});
