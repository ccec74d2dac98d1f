import { describe, it } from "node:test";
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import type { Runtime } from "../../src/runtime.ts";
import { detectRuntime } from "../../runtime_adapters/detect.ts";

const { startThread, keepAlive } = detectRuntime() as Required<Runtime>;
const adder = new URL("fixtures/adder.ts", import.meta.url).href;

/** Returns the error of a thread that cannot handle a message. */
async function failureOf(address: string, stopped = false): Promise<string> {
  const letEnd = keepAlive();
  const thread = startThread(address);
  const memory = new SharedArrayBuffer(4);
  const failed = assertRejects(() => thread.post({ memory, add: NaN }), Error);
  if (stopped) await thread.stop();
  const { message } = await failed;
  await thread.stop();
  letEnd();
  return message;
}

describe("startThread", () => {
  it("delivers messages in order while the main thread is blocked", async () => {
    const memory = new SharedArrayBuffer(4);
    const sum = new Int32Array(memory);
    const thread = startThread(adder);
    const done = Promise.all([1, 2, 3].map((add) => thread.post({ memory, add })));
    for (let seen = 0; seen !== 123; seen = Atomics.load(sum, 0)) {
      assertEquals(
        Atomics.wait(sum, 0, seen, 20_000) === "timed-out",
        false,
        "no message was delivered",
      );
    }
    const letEnd = keepAlive(); // a thread does not
    await done;
    letEnd();
    await thread.stop();
  });

  it("rejects with the reason when the module cannot be loaded", async () => {
    assertStringIncludes(await failureOf(adder.replace("adder", "nothing")), "nothing.ts");
  });

  it("rejects messages after stop", async () => {
    assertStringIncludes(await failureOf(adder, true), "has ended");
  });

  it("rejects with the error that the module throws", async () => {
    assertStringIncludes(await failureOf(adder), "not a number");
  });
});
