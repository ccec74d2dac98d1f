import { nextTurn } from "../../clock.ts";
import type { Cancel, Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import type { Server } from "./_server.ts";

/** Receivers come and go all the time; listening ends when none has come for this long. */
const LINGER_MS = 5_000;

/**
 * How often it is tried out whether notifications come through. A connection may be dead and not know
 * it, and clients have been seen to forget to listen when they connect again.
 */
const TRIAL_MS = 15_000;

/** How listening ends. */
type Stop = () => Promise<void>;

/**
 * Who waits in this process, by queue, and the one connection that hears what other processes send. It
 * is there only while somebody waits.
 *
 * A notification may get lost with its connection: whoever listens looks by himself too, now and then.
 * Every notification of one's own comes back; when none does, listening starts again from the beginning.
 */
export class Wakes {
  /** Says which notifications are one's own, and known already. */
  readonly sender: string = crypto.randomUUID();
  readonly #server: Server;
  readonly #channel: string;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #notify: () => Promise<unknown>;
  readonly #listeners = new Map<string, Set<() => void>>();
  #stop: Stop | undefined;
  #cancelLinger: Cancel | undefined;
  #cancelTrial: Cancel | undefined;
  #hearsItself = true;

  /** `notify` sends a notification of one's own. */
  constructor(
    server: Server,
    channel: string,
    clock: Clock,
    log: Log,
    notify: () => Promise<unknown>,
  ) {
    this.#server = server;
    this.#channel = channel;
    this.#clock = clock;
    this.#log = log;
    this.#notify = notify;
  }

  /** Calls `listener` whenever messages of the queue may have become visible. */
  add(queue: string, listener: () => void): () => void {
    const own = () => listener();
    const listeners = this.#listeners.get(queue) ?? new Set();
    this.#listeners.set(queue, listeners.add(own));
    this.#cancelLinger?.();
    this.#cancelLinger = undefined;
    if (this.#stop === undefined) {
      this.#stop = this.#listen();
      this.#tryOut();
    }
    return () => {
      listeners.delete(own);
      if (listeners.size > 0 || this.#listeners.get(queue) !== listeners) return;
      this.#listeners.delete(queue);
      if (this.#listeners.size === 0) this.#linger();
    };
  }

  /** Messages of this queue may have become visible. */
  wake(queue: string): void {
    for (const listener of this.#listeners.get(queue) ?? []) listener();
  }

  /** Stops listening, also to those that are still there. */
  async close(): Promise<void> {
    this.#cancelLinger?.();
    this.#cancelTrial?.();
    this.#listeners.clear();
    const stop = this.#stop;
    this.#stop = undefined;
    await stop?.();
  }

  #linger(): void {
    this.#cancelLinger?.();
    this.#cancelLinger = this.#clock.schedule(LINGER_MS, () => void this.close());
  }

  #tryOut(): void {
    this.#hearsItself = true;
    const trial = () => {
      if (!this.#hearsItself) {
        void this.#stop?.();
        this.#stop = this.#listen();
      }
      this.#hearsItself = false;
      this.#notify().catch(() => {}); // then nothing comes back, which is what counts
      this.#cancelTrial = this.#clock.schedule(TRIAL_MS, trial);
    };
    this.#cancelTrial = this.#clock.schedule(TRIAL_MS, trial);
  }

  #listen(): Stop {
    const { given } = this.#server;
    const own = given === undefined ? this.#server.connect(1) : undefined;
    let on = true;
    const listening = (given ?? own!).listen(
      this.#channel,
      (payload) => on && this.#hear(payload),
      () => on && this.#wakeAll(), // what was sent before, or while the connection was lost
    );
    listening.catch((error) => {
      if (on) this.#log.debug(`cannot listen to ${this.#server.name} yet`, { error });
    });
    return async () => {
      on = false;
      if (own !== undefined) {
        await nextTurn(); // the client forgets a connection that it is just about to make
        await own.end({ timeout: 0 });
      } else {
        listening.then(({ unlisten }) => unlisten()).catch(() => {}); // gone with its connection
      }
    };
  }

  #hear(payload: string): void {
    const [sender, queue] = payload.split(" ");
    if (sender === this.sender) this.#hearsItself = true;
    else if (queue !== undefined) this.wake(queue);
  }

  #wakeAll(): void {
    for (const queue of [...this.#listeners.keys()]) this.wake(queue);
  }
}
