/**
 * Deno, by `Deno.addSignalListener`.
 *
 * @module
 */

import type { Runtime, SignalName, Terminal } from "../src/runtime.ts";
import { createScope, keepAlive } from "./_process.ts";
import { StderrQueue } from "./_stderr.ts";
import { inNodeWorker, startThread, watchEventLoop } from "./_thread.ts";

/** The few members that are needed, so that the other runtimes need no types of Deno's. */
interface DenoNamespace {
  readonly build: { readonly os: string };
  readonly stdin: { isTerminal(): boolean };
  readonly stderr: {
    isTerminal(): boolean;
    write(bytes: Uint8Array): Promise<number>;
    writeSync(bytes: Uint8Array): number;
  };
  readonly noColor: boolean;
  readonly env: { get(name: string): string | undefined };
  readonly permissions: {
    querySync(permission: { readonly name: "env"; readonly variable: string }): {
      readonly state: string;
    };
  };
  consoleSize(): { readonly columns: number; readonly rows: number };
  readonly pid: number;
  addSignalListener(signal: SignalName, listener: () => void): void;
  removeSignalListener(signal: SignalName, listener: () => void): void;
  exit(code: number): never;
  kill(pid: number, signal: "SIGKILL"): void;
}

function deno(): DenoNamespace {
  return (globalThis as unknown as { Deno: DenoNamespace }).Deno;
}

const terminal: Terminal = {
  get interactive() {
    return deno().stderr.isTerminal() && !isDumb();
  },
  get color() {
    return this.interactive && !deno().noColor;
  },
  get columns() {
    return size().columns;
  },
  get rows() {
    return size().rows;
  },
  write: (text) => stderr.write(text),
  flush: () => stderr.flush(),
};

/** Deno's pipes block: only a terminal is written to at once, so that it is restored on exit. */
const stderr = new StderrQueue((bytes) => {
  const { stderr } = deno();
  try {
    if (stderr.isTerminal()) return stderr.writeSync(bytes);
  } catch {
    return bytes.length; // where the reader is gone, everything counts as written
  }
  return stderr.write(bytes).catch(() => bytes.length);
});

/** Asked only where it may be: nobody is to be prompted for this. */
function isDumb(): boolean {
  const { env, permissions } = deno();
  const { state } = permissions.querySync({ name: "env", variable: "TERM" });
  return state === "granted" && env.get("TERM") === "dumb";
}

/** Deno asks standard input and output for it, which may both be something else. */
function size(): { readonly columns: number; readonly rows: number } {
  try {
    return deno().consoleSize();
  } catch {
    return { columns: 80, rows: 24 };
  }
}

/** Loaded by those who serve. */
const serve: Runtime["serve"] = async (handler, options) => {
  const module = await import("./_serve_deno.ts");
  return await module.serve(handler, options);
};

/** The runtime adapter for Deno. */
export const denoRuntime: Runtime = {
  name: "deno",
  get interactive() {
    return deno().stdin.isTerminal();
  },
  get stopSignals() {
    return deno().build.os === "windows"
      ? ["SIGINT", "SIGBREAK"] as const
      : ["SIGTERM", "SIGINT"] as const;
  },
  // Web workers count as the main thread of `node:worker_threads`.
  inWorker: () => "WorkerGlobalScope" in globalThis || inNodeWorker(),
  onSignal(signal, listener) {
    deno().addSignalListener(signal, listener);
    return () => deno().removeSignalListener(signal, listener);
  },
  terminal,
  keepAlive,
  onExit(listener) {
    globalThis.addEventListener("unload", listener);
    return () => globalThis.removeEventListener("unload", listener);
  },
  exit: (code) => deno().exit(code),
  kill() {
    try {
      deno().kill(deno().pid, "SIGKILL");
    } finally {
      // The first process of a container is immune to its own SIGKILL.
      deno().exit(137);
    }
  },
  watchEventLoop,
  startThread,
  createScope,
  serve,
};
