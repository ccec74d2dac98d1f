import type { AsyncScope, Runtime, SignalName, Terminal } from "../src/runtime.ts";
import { StderrQueue } from "./_stderr.ts";
import { inNodeWorker, startThread, watchEventLoop } from "./_thread.ts";

// Imports of `node:process` and `node:tty` are avoided: the first opens the standard streams, and the
// second takes longer to load than the rest of the package.
const { process } = globalThis;

/**
 * Makes the adapter of Bun or Node, which share `process`. Callers must not spread the result: that
 * would call its getters, and `process` may not exist when the package is imported.
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
    identity: () => ({
      pid: process.pid,
      hostName: process.getBuiltinModule("node:os").hostname(),
    }),
    memoryBytes: () => process.memoryUsage.rss(),
    onSignal(signal: SignalName, listener: () => void) {
      // In a worker `process.on` accepts the listener and never calls it.
      if (inNodeWorker()) {
        throw new Error(
          `Cannot listen for ${signal} in a worker thread: ${own.name} delivers signals to the main ` +
            "thread only. Run the group in the main thread, or call run({ installSignals: false }) in the " +
            "worker and stop it with shutdown().",
        );
      }
      // `process.on` accepts any name and never calls the listener of an unknown one.
      if (!(signal in process.getBuiltinModule("node:os").constants.signals)) {
        throw new TypeError(`Cannot listen for ${signal}: ${process.platform} has no such signal`);
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
      // PID 1 of a container ignores its own SIGKILL.
      process.exit(137);
    },
    watchEventLoop,
    startThread,
    createScope,
  };
}

/** Reading `process.stderr` opens the stream, so each getter reads it only when it is called. */
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
  void process.stderr; // opening the stream makes a pipe non-blocking: a full one fails with EAGAIN
  try {
    return process.getBuiltinModule("node:fs").writeSync(2, bytes);
  } catch (error) {
    // After any other error, as when the reader is gone, the text is dropped.
    return (error as NodeJS.ErrnoException).code === "EAGAIN" ? 0 : bytes.length;
  }
});

/** The first major version of Node whose AsyncLocalStorage does not slow down every promise. */
const CHEAP_SCOPES_SINCE = 24;

/** Makes a scope of `AsyncLocalStorage`. Returns undefined where it is missing or slow. */
export function createScope<T>(): AsyncScope<T> | undefined {
  if (process === undefined) return undefined;
  const { bun, deno, node } = process.versions;
  if (!bun && !deno && parseInt(node) < CHEAP_SCOPES_SINCE) return undefined;
  const { AsyncLocalStorage } = process.getBuiltinModule("node:async_hooks");
  const storage = new AsyncLocalStorage<T>();
  return { run: (value, work) => storage.run(value, work), get: () => storage.getStore() };
}

/** Returns a function that calls `work` in the scopes of the caller. */
export function scopeOfCaller(): <R>(work: () => R) => R {
  return process.getBuiltinModule("node:async_hooks").AsyncLocalStorage.snapshot();
}

/** Keeps the process alive by a timer, until the returned function is called. */
export function keepAlive(): () => void {
  const timer = setInterval(() => {}, 2 ** 30);
  return () => clearInterval(timer);
}
