/**
 * The runtime adapter for Deno.
 *
 * @module
 */

import type {
  HttpServer,
  RequestHandler,
  Runtime,
  ServeOptions,
  SignalName,
  Terminal,
} from "../src/runtime.ts";
import { createScope, keepAlive } from "./_process.ts";
import { StderrQueue } from "./_stderr.ts";
import { inNodeWorker, startThread, watchEventLoop } from "./_thread.ts";

/** The members of `Deno` that this file uses. Other runtimes have no types of Deno. */
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
  serve(
    options: ServeOptions & { readonly onListen: () => void },
    handler: RequestHandler,
  ): DenoServer;
}

interface DenoServer {
  readonly addr: { readonly hostname: string; readonly port: number };
  shutdown(): Promise<void>;
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

/** Writes synchronously to a terminal only, so that it is restored on exit: pipes of Deno block. */
const stderr = new StderrQueue((bytes) => {
  const { stderr } = deno();
  try {
    if (stderr.isTerminal()) return stderr.writeSync(bytes);
  } catch {
    return bytes.length; // the reader is gone: drop the text
  }
  return stderr.write(bytes).catch(() => bytes.length);
});

/** Reads TERM only with permission, so that Deno does not prompt for it. */
function isDumb(): boolean {
  const { env, permissions } = deno();
  const { state } = permissions.querySync({ name: "env", variable: "TERM" });
  return state === "granted" && env.get("TERM") === "dumb";
}

/** Falls back to 80 by 24: `consoleSize` fails when neither stdin nor stdout is a terminal. */
function size(): { readonly columns: number; readonly rows: number } {
  try {
    return deno().consoleSize();
  } catch {
    return { columns: 80, rows: 24 };
  }
}

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
  // `node:worker_threads` calls a web worker the main thread.
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
      // PID 1 of a container ignores its own SIGKILL.
      deno().exit(137);
    }
  },
  watchEventLoop,
  startThread,
  createScope,
  serve,
};

function serve(handler: RequestHandler, options: ServeOptions): Promise<HttpServer> {
  return new Promise((resolve) => {
    const server = deno().serve({ ...options, onListen() {} }, handler);
    const { hostname, port } = server.addr;
    resolve({ hostname, port, close: ({ signal }) => close(server, signal) });
  });
}

/** Deno cannot cut connections off: after `signal` aborts they end with the process. */
async function close(server: DenoServer, signal: AbortSignal): Promise<void> {
  let giveUp: () => void = () => {};
  const givenUp = new Promise<void>((resolve) => giveUp = resolve);
  if (signal.aborted) giveUp();
  signal.addEventListener("abort", giveUp, { once: true });
  await Promise.race([server.shutdown(), givenUp]);
  signal.removeEventListener("abort", giveUp);
}
