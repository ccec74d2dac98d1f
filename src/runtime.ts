/**
 * The runtime port: what the package needs from Deno, Bun or Node. One thin adapter per runtime
 * implements it; all other code is independent of the runtime.
 *
 * @module
 */

/** A signal that a process can catch. */
export type SignalName =
  | "SIGHUP"
  | "SIGINT"
  | "SIGQUIT"
  | "SIGUSR1"
  | "SIGUSR2"
  | "SIGTERM"
  | "SIGBREAK";

/** The numbers of the signals, which exit codes contain. */
export const SIGNAL_NUMBERS: Readonly<Record<SignalName, number>> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGUSR1: 10,
  SIGUSR2: 12,
  SIGTERM: 15,
  SIGBREAK: 21,
};

/** Returns the exit code of a process that a signal ended: 128 plus its number. */
export function exitCodeOf(signal: SignalName): number {
  return 128 + SIGNAL_NUMBERS[signal];
}

/** The age of the last heartbeat of one loop. */
export interface BeatRecord {
  /** The name of the loop. */
  readonly name: string;
  /** Milliseconds since its last heartbeat. */
  readonly ageMs: number;
}

/** The process, and the machine that it runs on. */
export interface ProcessIdentity {
  /** The process id. */
  readonly pid: number;
  /** The host name, where the process may read it. */
  readonly hostName?: string;
}

/** Options of {@linkcode Runtime.watchEventLoop}. */
export interface EventLoopWatchOptions {
  /** The thread ends the process when the event loop is blocked for longer than this. */
  readonly thresholdMs: number;
  /** How often the thread checks. */
  readonly intervalMs: number;
}

/** A thread that ends the process when the event loop is blocked for too long. */
export interface EventLoopWatch {
  /** Tells the thread that the event loop runs. The thread prints the last `beats` before it kills. */
  beat(beats: readonly BeatRecord[]): void;
  /** Ends the thread. */
  stop(): Promise<void>;
}

/** A module that runs on its own thread. The thread does not keep the process alive. */
export interface ModuleThread {
  /**
   * Calls the module's `onPost` with a message, and resolves when `onPost` has resolved. Rejects with the
   * text of its error. Shared memory stays shared.
   */
  post(message: unknown): Promise<void>;
  /** Terminates the thread. */
  stop(): Promise<void>;
}

/** Answers a request, as `app.fetch` of Hono does. */
export type RequestHandler = (request: Request) => Response | Promise<Response>;

/** A response as plain values. */
export interface PlainResponse {
  /** The status code. */
  readonly status: number;
  /** The headers by name. */
  readonly headers: Readonly<Record<string, string>>;
  /** The whole body. */
  readonly body: string;
}

/** Where a server listens. */
export interface ServeOptions {
  /** The port; 0 for any free one. */
  readonly port: number;
  /** The host name or address of the interface; `0.0.0.0` for all. */
  readonly hostname: string;
  /**
   * Answers frequent GET requests in place of the handler, on runtimes where a `Request` and a `Response` cost more
   * than the rest. `target` is the request target, such as `/health/ready`. Returns undefined for a request that the
   * handler must answer. The handler must also answer all other requests, because a runtime may ignore this option.
   */
  readonly answer?: (target: string) => PlainResponse | Promise<PlainResponse> | undefined;
}

/** A listening server. */
export interface HttpServer {
  /** The interface that the server listens on. */
  readonly hostname: string;
  /** The port that the server listens on. */
  readonly port: number;
  /**
   * Accepts no more connections, closes idle ones, and resolves when all requests are answered. When
   * `signal` aborts, it closes the remaining connections.
   */
  close(options: { readonly signal: AbortSignal }): Promise<void>;
}

/** The standard error of the process. */
export interface Terminal {
  /** True for a terminal, false for a file or a pipe. */
  readonly interactive: boolean;
  /** Whether to write colours. */
  readonly color: boolean;
  /** The current width in characters. */
  readonly columns: number;
  /** The current height in lines. */
  readonly rows: number;
  /**
   * Writes without waiting for a reader. It buffers up to 64 KiB while a pipe is full, and drops the
   * buffer when the pipe accepts nothing for a second.
   */
  write(text: string): void;
  /** Resolves when everything is written or dropped; never, where the runtime's write hangs. */
  flush?(): Promise<void>;
}

/** A value that follows asynchronous work, like `AsyncLocalStorage` of Node. */
export interface AsyncScope<T> {
  /** Calls `work`. `get` returns `value` in `work` and in everything that it starts. */
  run<R>(value: T, work: () => R): R;
  /** Returns the value of the innermost `run` around the caller. */
  get(): T | undefined;
}

/** The port to Deno, Bun, Node or another runtime. */
export interface Runtime {
  /** The name for messages: `"node"`, `"deno"`, `"bun"`. */
  readonly name: string;
  /** Whether standard input is a terminal. */
  readonly interactive: boolean;
  /**
   * Keeps the state that all copies of the package in a process share. A simulated process has an object of
   * its own, so that several of them in one real process have their own signals and exit codes.
   *
   * @default {globalThis}
   */
  readonly globals?: object;
  /** The signals that request a stop on this platform. */
  readonly stopSignals: readonly SignalName[];
  /** Adds a listener and returns its remover. Throws when the platform cannot deliver the signal. */
  onSignal(signal: SignalName, listener: () => void): () => void;
  /** Returns the process id and the host name. Missing where the platform does not tell. */
  identity?(): ProcessIdentity;
  /** Returns the resident memory of the process in bytes. Missing where the platform does not tell. */
  memoryBytes?(): number;
  /** Returns true in a worker thread, where `exit` ends the thread and not the process. */
  inWorker?(): boolean;
  /** Keeps the process alive until the returned function is called. */
  keepAlive(): () => void;
  /** Calls `listener` when the process exits by itself. Returns the remover. */
  onExit?(listener: () => void): () => void;
  /** Ends the process. */
  exit(code: number): never;
  /** Ends the process by SIGKILL, without handlers or flushing, so that it cannot hang. */
  kill(): void;
  /** Watches the event loop from another thread, where the runtime has threads. */
  watchEventLoop?(options: EventLoopWatchOptions): EventLoopWatch;
  /** Loads the module at `address` on its own thread, where the runtime has threads. */
  startThread?(address: string): ModuleThread;
  /** Creates a scope, where the runtime has scopes that do not slow down other promises. */
  createScope?<T>(): AsyncScope<T> | undefined;
  /** The standard error, where the runtime has one. */
  readonly terminal?: Terminal;
  /** Listens for HTTP requests, where the runtime can. Rejects when the port is not available. */
  serve?(handler: RequestHandler, options: ServeOptions): Promise<HttpServer>;
  /** Returns the names of packages that `serve` needs and that cannot be loaded. @default {none} */
  missingServePackages?(): Promise<readonly string[]>;
}

let provider: (() => Runtime) | undefined;

/** Sets the runtime that is used where none is passed. The root `mod.ts` calls it. */
export function provideRuntime(provide: () => Runtime): void {
  provider = provide;
}

/** Returns the runtime that is used where none is passed. */
export function defaultRuntime(): Runtime {
  if (provider !== undefined) return provider();
  throw new Error(
    "No runtime is known: import from the package's main entry, or pass `runtime` in the options",
  );
}

/** Returns the default runtime, or undefined where there is none. */
export function knownRuntime(): Runtime | undefined {
  try {
    return provider?.();
  } catch {
    return undefined; // neither Deno nor Bun nor Node, as in a browser
  }
}

/**
 * Returns the URL by which a thread can load a module; undefined when a bundler has merged the module into
 * another file, which a thread must not start a second time. Pass `import.meta.url` and the name of the file.
 */
export function threadModuleUrl(url: string | undefined, name: string): string | undefined {
  return url !== undefined && new RegExp(`/${name}\\.[jt]s$`).test(url) ? url : undefined;
}
