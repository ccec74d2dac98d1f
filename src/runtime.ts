/**
 * What the package needs from the program that runs it. One thin adapter per runtime implements this;
 * nothing else knows which runtime it is.
 *
 * @module
 */

/** A signal that a process can catch and end on. */
export type SignalName =
  | "SIGHUP"
  | "SIGINT"
  | "SIGQUIT"
  | "SIGUSR1"
  | "SIGUSR2"
  | "SIGTERM"
  | "SIGBREAK";

/** Their numbers, which exit codes tell. */
export const SIGNAL_NUMBERS: Readonly<Record<SignalName, number>> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGUSR1: 10,
  SIGUSR2: 12,
  SIGTERM: 15,
  SIGBREAK: 21,
};

/** The exit code of a process that a signal ended. */
export function exitCodeOf(signal: SignalName): number {
  return 128 + SIGNAL_NUMBERS[signal];
}

/** How stale the parts of a process were when it was last heard of. */
export interface BeatRecord {
  /** The name of the loop. */
  readonly name: string;
  /** Milliseconds since it last gave a sign of life. */
  readonly ageMs: number;
}

/** Options of {@linkcode Runtime.watchEventLoop}. */
export interface EventLoopWatchOptions {
  /** Silence for longer than this ends the process. */
  readonly thresholdMs: number;
  /** How often the watching thread looks. */
  readonly intervalMs: number;
}

/** A thread that ends the process when the event loop stays silent. */
export interface EventLoopWatch {
  /** The event loop is alive; `beats` is what the thread prints should this be the last word. */
  beat(beats: readonly BeatRecord[]): void;
  /** Ends the thread. */
  stop(): Promise<void>;
}

/** A module at work on a thread of its own. It does not hold the process open. */
export interface ModuleThread {
  /**
   * Hands a message to the module's `onPost`, and resolves when that is done with it; rejects with the
   * text of what went wrong. Shared memory stays shared.
   */
  post(message: unknown): Promise<void>;
  /** Ends the thread, whatever it is doing. */
  stop(): Promise<void>;
}

/** Answers a request, as `app.fetch` of Hono does. */
export type RequestHandler = (request: Request) => Response | Promise<Response>;

/** Where a server listens. */
export interface ServeOptions {
  /** 0 for any that is free. */
  readonly port: number;
  /** The interface, by its name or address; `0.0.0.0` for all. */
  readonly hostname: string;
}

/** A server that listens. */
export interface HttpServer {
  /** The interface that it listens on. */
  readonly hostname: string;
  /** The one that it got. */
  readonly port: number;
  /**
   * Takes no more connections, closes those on which nothing is asked, and resolves when the others
   * have had their answers. When `signal` aborts, what is left is cut off.
   */
  close(options: { readonly signal: AbortSignal }): Promise<void>;
}

/** What a person reads while the program runs: its standard error. */
export interface Terminal {
  /** Whether a person looks at it; false where it is a file or a pipe. */
  readonly interactive: boolean;
  /** Whether colours are wanted there. */
  readonly color: boolean;
  /** How wide it is now, in characters; it may change. */
  readonly columns: number;
  /** How high it is now, in lines. */
  readonly rows: number;
  /**
   * Writes, and never waits for a reader: what a full pipe does not take is kept, up to 64 KiB, and
   * dropped when the pipe takes nothing for a second.
   */
  write(text: string): void;
  /** Resolves when everything was written or dropped; never, where the runtime's write hangs. */
  flush?(): Promise<void>;
}

/** A value that follows asynchronous work, as `AsyncLocalStorage` of Node does. */
export interface AsyncScope<T> {
  /** Calls `work`; `get` returns `value` in it and in everything that it starts. */
  run<R>(value: T, work: () => R): R;
  /** The value of the innermost `run` around the caller. */
  get(): T | undefined;
}

/** The port to Deno, Bun, Node or whatever else runs the program. */
export interface Runtime {
  /** For people: `"node"`, `"deno"`, `"bun"`. */
  readonly name: string;
  /** Whether a person sits at the terminal. */
  readonly interactive: boolean;
  /** The signals that ask for a stop on this platform. */
  readonly stopSignals: readonly SignalName[];
  /** Adds a listener and returns its remover. Throws when the platform cannot deliver the signal. */
  onSignal(signal: SignalName, listener: () => void): () => void;
  /** Returns true in a worker thread, where `exit` ends the thread and not the process. */
  inWorker?(): boolean;
  /** Holds the process open until the returned function is called. */
  keepAlive(): () => void;
  /** Has `listener` called when the process ends of its own will; returns the remover. */
  onExit?(listener: () => void): () => void;
  /** Ends the process. */
  exit(code: number): never;
  /** Ends the process by SIGKILL: no handler, no flush, no way to hang. */
  kill(): void;
  /** Watches the event loop from another thread, where the runtime has threads. */
  watchEventLoop?(options: EventLoopWatchOptions): EventLoopWatch;
  /** Loads the module at `address` on a thread of its own, where the runtime has threads. */
  startThread?(address: string): ModuleThread;
  /** Makes a scope, where the runtime has scopes that do not slow down other promises. */
  createScope?<T>(): AsyncScope<T> | undefined;
  /** What a person reads, where there is such a thing. */
  readonly terminal?: Terminal;
  /** Listens for HTTP requests, where the runtime can. Rejects when the port cannot be had. */
  serve?(handler: RequestHandler, options: ServeOptions): Promise<HttpServer>;
  /** The names of packages that `serve` needs and that cannot be loaded. @default {none} */
  missingServePackages?(): Promise<readonly string[]>;
}

let provider: (() => Runtime) | undefined;

/** Says which runtime is meant where none is passed. `mod.ts` does this for the three it knows. */
export function provideRuntime(provide: () => Runtime): void {
  provider = provide;
}

/** The runtime that is meant where none is passed. */
export function defaultRuntime(): Runtime {
  if (provider !== undefined) return provider();
  throw new Error(
    "No runtime is known: import from the package's main entry, or pass `runtime` in the options",
  );
}

/** The same for whoever can do without. */
export function knownRuntime(): Runtime | undefined {
  try {
    return provider?.();
  } catch {
    return undefined; // neither Deno nor Bun nor Node, as in a browser
  }
}
