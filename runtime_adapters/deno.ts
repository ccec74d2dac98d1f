/**
 * The runtime adapter for Deno.
 *
 * @module
 */

import type {
  HttpServer,
  ProcessIdentity,
  RequestHandler,
  Runtime,
  ServeOptions,
  SignalName,
  Terminal,
} from "../src/runtime.ts";
import { createScope, keepAlive, scopeOfCaller } from "./_process.ts";
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
  memoryUsage(): { readonly rss: number };
  readonly env: { get(name: string): string | undefined };
  readonly permissions: {
    querySync(
      permission:
        | { readonly name: "env"; readonly variable: string }
        | { readonly name: "sys"; readonly kind: "hostname" },
    ): { readonly state: string };
  };
  hostname(): string;
  consoleSize(): { readonly columns: number; readonly rows: number };
  readonly pid: number;
  addSignalListener(signal: SignalName, listener: () => void): void;
  removeSignalListener(signal: SignalName, listener: () => void): void;
  exit(code: number): never;
  kill(pid: number, signal: "SIGKILL"): void;
  serve(
    options: ServeOptions & { readonly onListen: () => void },
    handler: (request: Request, info: unknown) => Promise<Response>,
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

/** Reads the host name only with permission, so that Deno does not prompt for it. */
function identity(): ProcessIdentity {
  const { pid, permissions } = deno();
  const { state } = permissions.querySync({ name: "sys", kind: "hostname" });
  return { pid, ...(state === "granted" && { hostName: deno().hostname() }) };
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
  identity,
  memoryBytes: () => deno().memoryUsage().rss,
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

/** Bodies up to this size fit into socket buffers: they are sent although the client does not read. */
const SOCKET_BUFFER_BYTES = 65_536;

/** The body of a static response is read within this many turns of the microtask queue. */
const STATIC_BODY_TURNS = 8;

function serve(handler: RequestHandler, options: ServeOptions): Promise<HttpServer> {
  // The second argument is for handlers that use Deno's API.
  const answer = handler as (request: Request, info: unknown) => ReturnType<RequestHandler>;
  // Deno.serve calls handlers in the scope of its caller sometimes, and outside of it at other times.
  const inScope = scopeOfCaller();
  const serving = async (request: Request, info: unknown) =>
    streamLongBody(await inScope(() => answer(request, info)));
  return new Promise((resolve) => {
    const server = deno().serve({ ...options, onListen() {} }, serving);
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

/**
 * Turns a long static body into a stream. Deno counts a static response as sent when the server has it,
 * although the client reads nothing; a stream counts until it has gone out.
 */
async function streamLongBody(response: Response): Promise<Response> {
  const { body } = response;
  if (body === null || response.bodyUsed || body.locked) return response;
  const reader = body.getReader();
  const reads = [reader.read()];
  const first = await valueNow(reads[0]!);
  if (first?.done) return new Response(new Uint8Array(0), response);
  let length: number | undefined;
  if (first !== undefined) {
    reads.push(reader.read());
    if ((await valueNow(reads[1]!))?.done) length = first.value.byteLength;
    if (length !== undefined && length <= SOCKET_BUFFER_BYTES) {
      return new Response(first.value, response);
    }
  }
  const rest = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await (reads.shift() ?? reader.read());
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: (reason) => reader.cancel(reason),
  }, { highWaterMark: 0 });
  const sent = new Response(rest, response);
  if (length !== undefined) sent.headers.set("content-length", String(length));
  return sent;
}

/** Returns the value of a promise that resolves within a few turns; undefined for any other. */
async function valueNow<T>(promise: Promise<T>): Promise<T | undefined> {
  let value: T | undefined;
  promise.then((it) => value = it, () => {}); // the reader of the promise handles its failure
  for (let turn = 0; turn < STATIC_BODY_TURNS && value === undefined; turn++) await undefined;
  return value;
}
