import { describe, it } from "node:test";
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { LeaseTable, SLOTS } from "../../src/lease/_lease_thread.ts";

/** The same memory as two threads see it. */
function twoSides(): readonly [writer: LeaseTable, reader: LeaseTable] {
  const writer = new LeaseTable();
  return [writer, new LeaseTable(writer.memory)];
}

describe("the table of leases that two threads share", () => {
  it("the other thread reads what was written, in the first slot and in the last", () => {
    const [writer, reader] = twoSides();
    for (const slot of [0, SLOTS - 1]) {
      assertEquals(reader.stamp(slot), 0);
      assert(writer.write(slot, 7, `receipt-${slot}`, 1));
      assertEquals(reader.group(slot), 7);
      assertEquals(reader.receipt(slot, reader.stamp(slot)), `receipt-${slot}`);
      writer.clear(slot);
      assertEquals(reader.stamp(slot), 0);
    }
  });

  it("a lease gets another stamp when it is extended or replaced", () => {
    const [writer, reader] = twoSides();
    writer.write(3, 1, "first", 1);
    const first = reader.stamp(3);
    assertEquals(reader.since(3), 1);
    writer.extended(3, 2);
    const extended = reader.stamp(3);
    assertEquals(reader.since(3), 2);
    assertNotEquals(extended, first);
    assertEquals(reader.receipt(3, extended), "first");
    writer.write(3, 1, "second", 1);
    assertEquals(reader.receipt(3, extended), undefined, "what was looked for is gone");
    assertEquals(reader.receipt(3, reader.stamp(3)), "second");
  });

  it("writing a lease counts as a heartbeat, extending it does not", () => {
    const [writer, reader] = twoSides();
    writer.write(5, 1, "tea", 1);
    const begun = reader.beats(5);
    writer.extended(5, 2);
    assertEquals(reader.beats(5), begun);
    writer.beat(5);
    assertEquals(reader.beats(5), begun + 1);
    writer.write(5, 1, "cake", 1);
    assertEquals(reader.beats(5), begun + 2);
  });

  it("a receipt handle that does not fit is refused, and the slot stays empty", () => {
    const [writer, reader] = twoSides();
    assert(writer.write(0, 1, "x".repeat(104), 1));
    for (const receipt of ["x".repeat(105), "ümlaut"]) {
      writer.clear(0);
      assertEquals(writer.write(0, 1, receipt, 1), false);
      assertEquals(reader.stamp(0), 0);
    }
  });
});
