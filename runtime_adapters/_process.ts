import type { Runtime, SignalName } from "../src/runtime.ts";
import { startThread, watchEventLoop } from "./_thread.ts";

// Importing `node:process` would open the standard streams, and `node:tty` costs more than the rest.
const { process } = globalThis;

/** What Bun and Node share: everything goes through `process`. */
export function processRuntime(name: string): Runtime {
  return {
    name,
    get interactive() {
      return process.getBuiltinModule("node:tty").isatty(0);
    },
    get stopSignals() {
      return process.platform === "win32"
        ? ["SIGTERM", "SIGINT", "SIGBREAK"] as const
        : ["SIGTERM", "SIGINT"] as const;
    },
    onSignal(signal: SignalName, listener: () => void) {
      // `process.on` takes any name, and then never calls.
      if (!(signal in process.getBuiltinModule("node:os").constants.signals)) {
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
    startThread,
  };
}

/** A timer that does nothing but hold the process open. */
export function keepAlive(): () => void {
  const timer = setInterval(() => {}, 2 ** 30);
  return () => clearInterval(timer);
}
