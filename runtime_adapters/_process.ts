import { constants } from "node:os";
import process from "node:process";
import { isatty } from "node:tty";
import type { Runtime, SignalName } from "../src/runtime.ts";
import { watchEventLoop } from "./_thread.ts";

/** What Bun and Node share: everything goes through `process`. */
export function processRuntime(name: string): Runtime {
  return {
    name,
    // Asking `process.stdin` would open it.
    get interactive() {
      return isatty(0);
    },
    stopSignals: process.platform === "win32"
      ? ["SIGTERM", "SIGINT", "SIGBREAK"]
      : ["SIGTERM", "SIGINT"],
    onSignal(signal: SignalName, listener: () => void) {
      // `process.on` takes any name, and then never calls.
      if (!(signal in constants.signals)) {
        throw new TypeError(`${signal} does not exist on ${process.platform}`);
      }
      process.on(signal, listener);
      return () => void process.off(signal, listener);
    },
    keepAlive,
    exit: (code) => process.exit(code),
    kill() {
      process.kill(process.pid, "SIGKILL");
      // The first process of a container is immune to its own SIGKILL.
      process.exit(137);
    },
    watchEventLoop,
  };
}

/** A timer that does nothing but hold the process open. */
export function keepAlive(): () => void {
  const timer = setInterval(() => {}, 2 ** 30);
  return () => clearInterval(timer);
}
