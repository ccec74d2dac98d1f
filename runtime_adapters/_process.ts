import type { AsyncScope, Runtime, SignalName, Terminal } from "../src/runtime.ts";
import { StderrQueue } from "./_stderr.ts";
import { inNodeWorker, startThread, watchEventLoop } from "./_thread.ts";

// Importing `node:process` would open the standard streams, and `node:tty` costs more than the rest.
const { process } = globalThis;

/**
 * What Bun and Node share: everything goes through `process`. The result must not be spread: that would
 * call its getters, and `process` need not be there when the package is imported.
 */
export function processRuntime(
  own: Pick<Runtime, "name" | "serve" | "missingServePackages">,
): Runtime {
  return {
    ...own,
    get interactive() {
      return process.getBuiltinModule("node:tty").isatty(0);
    },
    get stopSignals() {
      return process.platform === "win32"
        ? ["SIGTERM", "SIGINT", "SIGBREAK"] as const
        : ["SIGTERM", "SIGINT"] as const;
    },
    inWorker: inNodeWorker,
    onSignal(signal: SignalName, listener: () => void) {
      // `process.on` takes it there too, and then never calls.
      if (inNodeWorker()) {
        throw new Error(
          `Cannot listen for ${signal} in a worker thread: ${own.name} delivers signals to the main ` +
            "thread only. Run the group in the main thread, or call run({ installSignals: false }) in the " +
            "worker and stop it by shutdown().",
        );
      }
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
    createScope,
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
  write: (text) => stderr.write(text),
  flush: () => stderr.flush(),
};

const stderr = new StderrQueue((bytes) => {
  void process.stderr; // opening the stream makes a pipe non-blocking, so that a full one is told
  try {
    return process.getBuiltinModule("node:fs").writeSync(2, bytes);
  } catch (error) {
    // Where the reader is gone, everything counts as written.
    return (error as NodeJS.ErrnoException).code === "EAGAIN" ? 0 : bytes.length;
  }
});

/** The first version of Node whose AsyncLocalStorage does not hook into every promise. */
const CHEAP_SCOPES_SINCE = 24;

/** Makes a scope of `AsyncLocalStorage`, where there is one. */
export function createScope<T>(): AsyncScope<T> | undefined {
  if (process === undefined) return undefined;
  const { bun, deno, node } = process.versions;
  if (!bun && !deno && parseInt(node) < CHEAP_SCOPES_SINCE) return undefined;
  const { AsyncLocalStorage } = process.getBuiltinModule("node:async_hooks");
  const storage = new AsyncLocalStorage<T>();
  return { run: (value, work) => storage.run(value, work), get: () => storage.getStore() };
}

/** A timer that does nothing but hold the process open. */
export function keepAlive(): () => void {
  const timer = setInterval(() => {}, 2 ** 30);
  return () => clearInterval(timer);
}
