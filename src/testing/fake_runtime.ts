import type {
  BeatRecord,
  EventLoopWatch,
  EventLoopWatchOptions,
  Runtime,
  SignalName,
  Terminal,
} from "../runtime.ts";

/** Thrown by {@linkcode FakeRuntime.exit}, because a fake process cannot really end. */
export class ExitError extends Error {
  /** What a test tells it by. */
  override readonly name = "ExitError";
  /** The code the process would have ended with. */
  readonly code: number;

  /** With the code the process would have ended with. */
  constructor(code: number) {
    super(`The process ended with exit code ${code}`);
    this.code = code;
  }
}

/**
 * A runtime for tests: the test sends the signals, and exits are only recorded.
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
  /** What tells it from a real one. */
  readonly name = "fake";
  /** Whether it says that a person sits in front of it. */
  readonly interactive: boolean;
  /** Those that a coordinator listens to unless told. */
  readonly stopSignals: readonly SignalName[] = ["SIGTERM", "SIGINT"];
  /** What the process would have ended with, first to last. */
  readonly exitCodes: number[] = [];
  /** How often the process was killed. */
  kills = 0;
  /** How many hold the process open. */
  held = 0;
  /** The beats the watching thread got, or undefined when there is no such thread. */
  thread: (EventLoopWatchOptions & { readonly beats: (readonly BeatRecord[])[] }) | undefined;
  /** What the fake process writes for people, if it has a terminal. */
  readonly terminal?: Terminal;
  readonly #exitListeners = new Set<() => void>();
  readonly #listeners = new Set<readonly [SignalName, () => void]>();

  /** Without listeners and without a terminal, and not interactive unless told. */
  constructor(options: { readonly interactive?: boolean; readonly terminal?: Terminal } = {}) {
    this.interactive = options.interactive ?? false;
    if (options.terminal !== undefined) this.terminal = options.terminal;
  }

  /** How many signal listeners there are. */
  get listening(): number {
    return this.#listeners.size;
  }

  /** Sends a signal to the fake process. */
  send(signal: SignalName): void {
    for (const [name, listener] of this.#listeners) if (name === signal) listener();
  }

  /** Has the listener called by `send`; returns the remover. */
  onSignal(signal: SignalName, listener: () => void): () => void {
    const entry = [signal, listener] as const;
    this.#listeners.add(entry);
    return () => void this.#listeners.delete(entry);
  }

  /** Counts as `held` until the returned function is called. */
  keepAlive(): () => void {
    this.held++;
    return () => void this.held--;
  }

  /** Has `listener` called by `exit`. */
  onExit(listener: () => void): () => void {
    this.#exitListeners.add(listener);
    return () => void this.#exitListeners.delete(listener);
  }

  /** Notes the code down and throws an {@linkcode ExitError}. */
  exit(code: number): never {
    this.exitCodes.push(code);
    for (const listener of [...this.#exitListeners]) listener();
    throw new ExitError(code);
  }

  /** Counts; the test goes on. */
  kill(): void {
    this.kills++;
  }

  /** Notes down what the thread would be told, as `thread`. */
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
