import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { StderrQueue } from "../../runtime_adapters/_stderr.ts";

/** A pipe that accepts `room` bytes. */
class Pipe {
  taken = "";
  room: number;

  constructor(room: number) {
    this.room = room;
  }

  take(bytes: Uint8Array): number {
    const some = bytes.subarray(0, this.room);
    this.taken += new TextDecoder().decode(some);
    this.room -= some.length;
    return some.length;
  }
}

describe("StderrQueue", () => {
  it("has written text that fits when write returns", () => {
    const pipe = new Pipe(100);
    const stderr = new StderrQueue((bytes) => pipe.take(bytes));
    stderr.write("one\n");
    stderr.write("two\n");
    assertEquals(pipe.taken, "one\ntwo\n");
  });

  it("writes the rest in order when a full pipe has room again", async () => {
    const pipe = new Pipe(6);
    const stderr = new StderrQueue((bytes) => pipe.take(bytes));
    stderr.write("one\n");
    stderr.write("two\n");
    stderr.write("three\n");
    assertEquals(pipe.taken, "one\ntw");
    pipe.room = 100;
    await stderr.flush();
    assertEquals(pipe.taken, "one\ntwo\nthree\n");
  });

  it("drops text after a second without room, and works again afterwards", async () => {
    const pipe = new Pipe(0);
    const stderr = new StderrQueue((bytes) => pipe.take(bytes));
    stderr.write("lost\n");
    await stderr.flush();
    pipe.room = 100;
    stderr.write("later\n");
    assertEquals(pipe.taken, "later\n");
  });

  it("keeps at most 64 KiB", async () => {
    const pipe = new Pipe(0);
    const stderr = new StderrQueue((bytes) => pipe.take(bytes));
    for (let line = 0; line < 10_000; line++) stderr.write(`a line of some length, ${line}\n`);
    pipe.room = Infinity;
    await stderr.flush();
    assert(pipe.taken.length > 60_000 && pipe.taken.length <= 65_536, `${pipe.taken.length} bytes`);
  });

  it("writes texts in order if the runtime writes asynchronously", async () => {
    const pipe = new Pipe(100);
    const stderr = new StderrQueue(async (bytes) => {
      await Promise.resolve();
      return pipe.take(bytes.subarray(0, 3));
    });
    stderr.write("one\n");
    stderr.write("two\n");
    await stderr.flush();
    assertEquals(pipe.taken, "one\ntwo\n");
  });
});
