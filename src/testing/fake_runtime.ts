import type {
  BeatRecord,
  EventLoopWatch,
  EventLoopWatchOptions,
  Runtime,
  SignalName,
  Terminal,
} from "../runtime.ts";

/** Thrown by {@linkcode FakeRuntime.exit}, because a fake process does not end. */
export class ExitError extends Error {
  /** The name of the error. */
  override readonly name = "ExitError";
  /** The exit code. */
  readonly code: number;

  /** Makes an error with the exit code. */
  constructor(code: number) {
    super(`The process ended with exit code ${code}`);
    this.code = code;
  }
}

/**
 * A runtime for tests. The test sends the signals, and exits are recorded.
 *
 * @example
 * ```ts
 * import { ShutdownCoordinator } from "@lastcall/lastcall";
 * import { FakeRuntime } from "@lastcall/lastcall/testing";
 *
 * const runtime = new FakeRuntime();
 * const coordinator = ShutdownCoordinator.install({ runtime });
 * runtime.send("SIGTERM");
 * console.assert(coordinator.triggered);
 * ShutdownCoordinator.reset();
 * console.assert(runtime.listening === 0);
 * ```
 */
export class FakeRuntime implements Runtime {
  /** The name of the runtime. */
  readonly name = "fake";
  /** Whether the process has an interactive terminal. */
  readonly interactive: boolean;
  /** The signals that a coordinator listens to by default. */
  readonly stopSignals: readonly SignalName[] = ["SIGTERM", "SIGINT"];
  /** The codes of all exits, first to last. */
  readonly exitCodes: number[] = [];
  /** How often `kill` was called. */
  kills = 0;
  /** The resident memory that `memoryBytes` returns. */
  memory = 0;
  /** How many callers keep the process alive. */
  held = 0;
  /** The options and the beats of the watching thread; undefined while there is none. */
  thread: (EventLoopWatchOptions & { readonly beats: (readonly BeatRecord[])[] }) | undefined;
  /** The terminal, if the options have one. */
  readonly terminal?: Terminal;
  /** The state of the fake process, if it has its own. */
  readonly globals?: object;
  readonly #exitListeners = new Set<() => void>();
  readonly #listeners = new Set<readonly [SignalName, () => void]>();

  /**
   * Creates a runtime without listeners. It is not interactive by default. Fake processes that run side by
   * side each need `globals` of their own, such as `{}`; otherwise a signal to one stops all.
   */
  constructor(
    options: {
      readonly interactive?: boolean;
      readonly terminal?: Terminal;
      readonly globals?: object;
    } = {},
  ) {
    this.interactive = options.interactive ?? false;
    if (options.terminal !== undefined) this.terminal = options.terminal;
    if (options.globals !== undefined) this.globals = options.globals;
  }

  /** The number of signal listeners. */
  get listening(): number {
    return this.#listeners.size;
  }

  /** Returns `memory`. */
  memoryBytes(): number {
    return this.memory;
  }

  /** Sends a signal to the fake process. */
  send(signal: SignalName): void {
    for (const [name, listener] of this.#listeners) if (name === signal) listener();
  }

  /** Calls `listener` for every `send` of the signal. Returns the remover. */
  onSignal(signal: SignalName, listener: () => void): () => void {
    const entry = [signal, listener] as const;
    this.#listeners.add(entry);
    return () => void this.#listeners.delete(entry);
  }

  /** Counts in `held` until the returned function is called. */
  keepAlive(): () => void {
    this.held++;
    return () => void this.held--;
  }

  /** Calls `listener` for every `exit`. Returns the remover. */
  onExit(listener: () => void): () => void {
    this.#exitListeners.add(listener);
    return () => void this.#exitListeners.delete(listener);
  }

  /** Records the code and throws an {@linkcode ExitError}. */
  exit(code: number): never {
    this.exitCodes.push(code);
    for (const listener of [...this.#exitListeners]) listener();
    throw new ExitError(code);
  }

  /** Counts the call in `kills`. */
  kill(): void {
    this.kills++;
  }

  /** Records the options and the beats in `thread`. */
  watchEventLoop(options: EventLoopWatchOptions): EventLoopWatch {
    const thread = this.thread = { ...options, beats: [] as (readonly BeatRecord[])[] };
    return {
      beat: (beats) => void thread.beats.push(beats),
      stop: () => {
        this.thread = undefined;
        return Promise.resolve();
      },
    };
  }
}
