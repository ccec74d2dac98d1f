import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { QueueControl } from "../../src/mailbox/queue_control.ts";
import { seed } from "../_seed.ts";

/** Receives as an engine does: the state is stored between two receives. */
function receiver(limit: { max: number; perMs: number }) {
  let stored = "{}";
  const change = <T>(act: (control: QueueControl) => T): T => {
    const control = new QueueControl(JSON.parse(stored));
    const result = act(control);
    stored = JSON.stringify(control.state ?? {});
    return result;
  };
  change((control) => control.limit(limit));
  return {
    change,
    receive(max: number, now: number): { count: number; nextMs: number } {
      return change((control) => {
        const { max: count, nextMs } = control.allowance(max, now);
        control.delivered(count, now);
        return { count, nextMs };
      });
    },
  };
}

describe("QueueControl", () => {
  it(`no period has more deliveries than the limit, wherever it begins (seed ${seed})`, () => {
    const limits = fc.record({
      max: fc.integer({ min: 1, max: 40 }),
      perMs: fc.integer({ min: 1, max: 3_000 }),
    });
    const receives = fc.array(
      fc.tuple(fc.integer({ min: 0, max: 500 }), fc.integer({ min: 1, max: 20 })),
    );
    fc.assert(
      fc.property(limits, receives, fc.nat(1_000_000), (limit, receives, start) => {
        const { receive } = receiver(limit);
        const times: number[] = [];
        let now = start;
        for (const [pauseMs, max] of receives) {
          now += pauseMs;
          const { count } = receive(max, now);
          for (let i = 0; i < count; i++) times.push(now);
        }
        for (const [i, from] of times.entries()) {
          const within = times.slice(i).filter((at) => at < from + limit.perMs).length;
          assert(within <= limit.max, `${within} of ${limit.max} from ${from}`);
        }
      }),
      { seed, numRuns: 500 },
    );
  });

  it("counts a delivery at the beginning of a part whose time is not exact", () => {
    // A part lasts 0.14 ms, and 140,500 parts last 19,670.000000000004 ms.
    const { receive } = receiver({ max: 1, perMs: 7 });
    assertEquals(receive(1, 19_670).count, 1);
    assertEquals(receive(1, 19_670).count, 0);
  });

  it("a queue that always has messages comes within two per cent of the limit", () => {
    const { receive } = receiver({ max: 100, perMs: 1_000 });
    let count = 0;
    for (let now = 12_345; now < 72_345; now += 7) count += receive(10, now).count;
    assert(count >= 0.98 * 6_000 && count <= 6_100, String(count));
  });

  it(`a refused receive succeeds after the time that it was told (seed ${seed})`, () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5 }), fc.nat(100_000), (max, start) => {
        const { receive } = receiver({ max, perMs: 1_000 });
        assertEquals(receive(10, start).count, max);
        const { count, nextMs } = receive(10, start + 1);
        assertEquals(count, 0);
        assertEquals(receive(10, start + 1 + nextMs).count > 0, true);
        assert(nextMs <= 1_020, `${nextMs} ms`);
      }),
      { seed },
    );
  });

  it("a clock that was set back does not stop the deliveries", () => {
    const { receive } = receiver({ max: 5, perMs: 1_000 });
    assertEquals(receive(5, 3_600_000).count, 5);
    assertEquals(receive(5, 0).count, 5);
  });

  it("a new limit with the same period counts what was delivered before", () => {
    const { change, receive } = receiver({ max: 5, perMs: 1_000 });
    receive(5, 0);
    change((control) => control.limit({ max: 8, perMs: 1_000 }));
    assertEquals(receive(10, 100).count, 3);
  });

  it("neither a pause nor a limit leaves something to store", () => {
    const control = new QueueControl();
    control.pause(1_000, 0);
    control.limit({ max: 1, perMs: 1 });
    control.pause(0, 0);
    control.limit(undefined);
    assertEquals(control.state, undefined);
  });
});
