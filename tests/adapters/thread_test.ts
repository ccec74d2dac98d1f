import { describe, it } from "node:test";
import { assertEquals, assertStringIncludes } from "@std/assert";
import { deferred } from "../../src/_promises.ts";
import type { Runtime } from "../../src/runtime.ts";
import { detectRuntime } from "../../runtime_adapters/detect.ts";

const { startThread, keepAlive } = detectRuntime() as Required<Runtime>;
const adder = new URL("fixtures/adder.ts", import.meta.url).href;

/** What a thread says that fails with its first message, if not before. */
async function failureOf(address: string): Promise<string> {
  const failure = deferred<unknown>();
  const letEnd = keepAlive(); // which a thread does not
  const thread = startThread(address, failure.resolve);
  thread.post({ memory: new SharedArrayBuffer(4), add: NaN });
  const error = await failure.promise;
  await thread.stop();
  letEnd();
  return String(error);
}

describe("a module on a thread of its own", () => {
  it("gets what is posted, in order, although this thread is blocked from the start", async () => {
    const memory = new SharedArrayBuffer(4);
    const sum = new Int32Array(memory);
    const thread = startThread(adder, (error) => console.error(error));
    for (const add of [1, 2, 3]) thread.post({ memory, add });
    for (let seen = 0; seen !== 123; seen = Atomics.load(sum, 0)) {
      assertEquals(Atomics.wait(sum, 0, seen, 20_000) === "timed-out", false, "nothing came");
    }
    await thread.stop();
  });

  it("says why it cannot be loaded", async () => {
    assertStringIncludes(await failureOf(adder.replace("adder", "nothing")), "nothing.ts");
  });

  it("tells of what it throws, and does not end the process by it", async () => {
    assertStringIncludes(await failureOf(adder), "not a number");
  });
});
