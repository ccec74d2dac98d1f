import type { Runtime, SignalName, Terminal } from "../src/runtime.ts";
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
    terminal,
    keepAlive,
    onExit(listener) {
      process.on("exit", listener);
      return () => void process.off("exit", listener);
    },
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

/** Streams are opened by looking at them, so nothing is looked at before it is asked for. */
const terminal: Terminal = {
  get interactive() {
    return process.stderr.isTTY === true && process.env["TERM"] !== "dumb";
  },
  get color() {
    return this.interactive && process.stderr.hasColors?.() !== false && !process.env["NO_COLOR"];
  },
  get columns() {
    return process.stderr.columns || 80;
  },
  get rows() {
    return process.stderr.rows || 24;
  },
  write(text) {
    const bytes = new TextEncoder().encode(text);
    for (let at = 0; at < bytes.length;) at += writeSome(bytes.subarray(at));
  },
};

/** Standard error may be a pipe that is full for a moment; one that is gone takes everything. */
function writeSome(bytes: Uint8Array): number {
  try {
    return process.getBuiltinModule("node:fs").writeSync(2, bytes);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EAGAIN" ? 0 : bytes.length;
  }
}

/** A timer that does nothing but hold the process open. */
export function keepAlive(): () => void {
  const timer = setInterval(() => {}, 2 ** 30);
  return () => clearInterval(timer);
}
