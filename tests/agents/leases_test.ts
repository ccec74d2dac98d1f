import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { scriptedAdapter } from "../../src/agents/adapter.ts";
import { LeaseExtender } from "../../src/lease/lease_extender.ts";
import { Fixture, hangingAdapter } from "./_fixture.ts";

describe("the lease of a request", () => {
  it("AgentLoop does not extend the lease of an attempt that is stuck for five minutes, by default", async () => {
    const fixture = new Fixture();
    await fixture.ask("silent");
    const stuck = fixture.loop({ adapter: hangingAdapter });
    const run = stuck.run();
    await fixture.clock.advance(299_000);
    assertEquals(await fixture.requests.receive(), [], "it may still be thinking");
    await fixture.clock.advance(601_000 - 299_000);
    const [message] = await fixture.requests.receive();
    assertEquals([message?.body.request, message?.deliveryCount], ["silent", 2]);
    assert(stuck.leases.counters.withheld > 0);
    await fixture.clock.until(stuck.shutdown({ timeoutMs: 1_000 }));
    await run;
  });

  it("AgentLoop extends the lease for as long as an adapter sends heartbeats, or as its options say", async () => {
    const silence = async (fixture: Fixture, beat: () => void) => {
      for (let minute = 0; minute < 7; minute++) {
        await fixture.clock.sleep(60_000);
        beat();
      }
      return "done";
    };
    const ways = [
      { beats: true, lease: {} },
      { beats: false, lease: { beatWithinMs: Infinity } },
      { beats: false, lease: new LeaseExtender() },
    ] as const;
    for (const { beats, lease } of ways) {
      const fixture = new Fixture();
      await fixture.ask("slow");
      const adapter = scriptedAdapter((_, { beat }) => silence(fixture, beats ? beat : () => {}));
      const own = lease instanceof LeaseExtender
        ? new LeaseExtender({ clock: fixture.clock })
        : lease;
      const loop = fixture.loop({ adapter, lease: own });
      await fixture.workOff(loop);
      const { withheld, losses } = loop.leases.counters;
      assertEquals([fixture.replied, withheld, losses], [["done"], 0, 0]);
    }
  });

  it("AgentLoop keeps the leases of requests that wait for their attempt", async () => {
    const fixture = new Fixture();
    for (const name of ["one", "two"]) await fixture.ask(name);
    const adapter = scriptedAdapter(async ({ messages }, { beat }) => {
      for (let minute = 0; minute < 7; minute++) {
        await fixture.clock.sleep(60_000);
        beat();
      }
      return messages[0]!.content;
    });
    const loop = fixture.loop({ adapter, prefetch: 1 });
    await fixture.workOff(loop);
    assertEquals(fixture.replied, ["one", "two"]);
    assertEquals(fixture.replies.bodies.map(({ runContext }) => runContext.attempt), [1, 1]);
    assertEquals(loop.leases.counters.withheld, 0);
  });
});
