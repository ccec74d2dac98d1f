import { hostname } from "node:os";
import process from "node:process";
import { describe, it } from "node:test";
import { isatty } from "node:tty";
import { assertEquals, assertThrows } from "@std/assert";
import { detectRuntime } from "../../runtime_adapters/detect.ts";

const runtime = detectRuntime();
const skip = process.platform === "win32" && "Windows has no POSIX signals";

// Under `node --test` a SIGUSR2 would write a diagnostic report as well.
const signal = "SIGHUP";

/** A signal listener that counts its calls. */
class Listener {
  calls = 0;
  #wake: () => void = () => {};

  readonly remove: () => void = runtime.onSignal(signal, () => {
    this.calls++;
    this.#wake();
  });

  /** Sends the signal to this process and waits until this listener is called. */
  async send(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      // Signal listeners do not keep the process alive; this timer does.
      const limit = setTimeout(() => reject(new Error(`${signal} was not delivered`)), 20_000);
      this.#wake = () => {
        clearTimeout(limit);
        resolve();
      };
      process.kill(process.pid, signal);
    });
  }
}

describe(`the adapter of ${runtime.name}`, () => {
  it("is detected by detectRuntime", () => {
    const { bun, deno } = process.versions;
    assertEquals(runtime.name, deno ? "deno" : bun ? "bun" : "node");
  });

  it("is interactive when a terminal is attached", () => {
    assertEquals(runtime.interactive, isatty(0));
  });

  it("tells the process id and the host name", () => {
    assertEquals(runtime.identity?.(), { pid: process.pid, hostName: hostname() });
  });

  it("stops on SIGTERM and SIGINT", { skip }, () => {
    assertEquals(runtime.stopSignals, ["SIGTERM", "SIGINT"]);
  });

  it("calls a listener once for a signal, and not after its removal", { skip }, async () => {
    const before = process.listenerCount(signal);
    const [removed, kept] = [new Listener(), new Listener()];
    await kept.send();
    assertEquals([removed.calls, kept.calls], [1, 1]);

    removed.remove();
    await kept.send();
    assertEquals([removed.calls, kept.calls], [1, 2]);

    kept.remove();
    assertEquals(process.listenerCount(signal), before);
  });

  it("lets a listener be removed twice, and the others stay", { skip }, async () => {
    const [removed, kept] = [new Listener(), new Listener()];
    removed.remove();
    removed.remove();
    await kept.send();
    assertEquals([removed.calls, kept.calls], [0, 1]);
    kept.remove();
  });

  it("refuses a signal that the platform does not have", { skip }, () => {
    assertThrows(() => runtime.onSignal("SIGBREAK", () => {})(), Error, "SIGBREAK");
  });

  it("starts and stops the thread that watches the event loop", async () => {
    const watch = runtime.watchEventLoop!({ thresholdMs: 60_000, intervalMs: 10 });
    watch.beat([{ name: "loop", ageMs: 0 }]);
    await watch.stop();
    // A late beat and a second stop have no effect.
    watch.beat([{ name: "loop", ageMs: 0 }]);
    await watch.stop();
  });
});
