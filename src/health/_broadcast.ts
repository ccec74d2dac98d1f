import type { Cancel, Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import { excerpt } from "./_excerpt.ts";
import type { Inspectable } from "./health_options.ts";
import type { Status } from "./status.ts";
import type { StatusSource } from "./_status_source.ts";

/** Options of a broadcast. */
export interface BroadcastOptions {
  /**
   * Whether the server ends the streams by `close`. Another server may itself be stopping and wait for the
   * streams, so they end as soon as a stop begins.
   */
  readonly hosted: boolean;
  readonly clock: Clock;
  readonly log: Log;
}

type Watcher = ReadableStreamDefaultController<Uint8Array>;

const TICK_MS = 1_000;
/** Changes within this time are sent in one event. */
const SOON_MS = 100;
/** A slow client misses events and gets the next one. */
const MOST_UNREAD = 8;
const MOST_WATCHERS = 100;

/** The reconnect delay of browsers: short, because most streams end with a process. */
const RETRY = "retry: 1000\n\n";

/**
 * Sends the status of a group to all clients: immediately, every second, and on every change. One timer
 * serves all clients, and it runs only while there are any.
 */
export class Broadcast {
  readonly #group: Inspectable;
  readonly #source: StatusSource;
  readonly #options: BroadcastOptions;
  readonly #watchers = new Set<Watcher>();
  #removers: readonly Cancel[] = [];
  #cancelTick: Cancel = () => {};
  #cancelSoon: Cancel | undefined;
  #sentAt = -Infinity;
  #closed = false;

  constructor(group: Inspectable, source: StatusSource, options: BroadcastOptions) {
    this.#group = group;
    this.#source = source;
    this.#options = options;
  }

  /** True when no more clients are accepted. */
  get full(): boolean {
    return this.#watchers.size >= MOST_WATCHERS;
  }

  /** Events for one watcher. Nothing happens before it is read, so that an answer to HEAD costs nothing. */
  stream(): ReadableStream<Uint8Array> {
    let watcher: Watcher | undefined;
    return new ReadableStream<Uint8Array>({
      pull: (controller) => {
        if (watcher !== undefined) return;
        watcher = controller;
        this.#join(controller);
      },
      cancel: () => void (watcher && this.#leave(watcher)),
    }, { highWaterMark: 0 });
  }

  /** Sends the last event, because the loops have stopped and the server is about to close. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#send(this.#watchers);
    for (const watcher of this.#watchers) this.#end(watcher); // should nothing have been sent
  }

  async #join(watcher: Watcher): Promise<void> {
    this.#watchers.add(watcher);
    if (this.#watchers.size === 1) this.#begin();
    watcher.enqueue(new TextEncoder().encode(RETRY));
    if (!this.#closed) await this.#source.informed(); // nothing may be known of the engines yet
    if (this.#watchers.has(watcher)) this.#send([watcher]);
  }

  #leave(watcher: Watcher): void {
    if (this.#watchers.delete(watcher) && this.#watchers.size === 0) this.#rest();
  }

  #begin(): void {
    const { clock } = this.#options;
    this.#removers = [
      // Deferred, so that the group has finished entering the phase.
      this.#group.on?.("phase", () => queueMicrotask(() => this.#send(this.#watchers))) ??
        (() => {}),
      this.#group.on?.("loop", () => this.#sendSoon()) ?? (() => {}),
    ];
    const tick = () => {
      this.#cancelTick = clock.schedule(TICK_MS, tick);
      this.#send(this.#watchers);
    };
    this.#cancelTick = clock.schedule(TICK_MS, tick);
  }

  #rest(): void {
    for (const remove of this.#removers) remove();
    this.#cancelTick();
    this.#cancelSoon?.();
    this.#cancelSoon = undefined;
  }

  #sendSoon(): void {
    const { clock } = this.#options;
    const waitMs = Math.max(0, this.#sentAt + SOON_MS - clock.monotonic());
    this.#cancelSoon ??= clock.schedule(waitMs, () => {
      this.#cancelSoon = undefined;
      this.#send(this.#watchers);
    });
  }

  #send(watchers: Iterable<Watcher>): void {
    if (this.#watchers.size === 0) return;
    let event: { readonly bytes: Uint8Array; readonly last: boolean };
    try {
      event = this.#event(excerpt(this.#source.known()));
    } catch (error) {
      this.#options.log.error("could not send the status to clients", { error });
      return;
    }
    this.#sentAt = this.#options.clock.monotonic();
    for (const watcher of [...watchers]) {
      if (event.last || (watcher.desiredSize ?? 0) > -MOST_UNREAD) watcher.enqueue(event.bytes);
      if (event.last) this.#end(watcher);
    }
  }

  #end(watcher: Watcher): void {
    watcher.close();
    this.#leave(watcher);
  }

  #event(status: Status): { readonly bytes: Uint8Array; readonly last: boolean } {
    const stopped = this.#closed || status.phase === "stopped";
    const parting = !this.#options.hosted && (status.stop !== undefined || status.paused);
    const data = JSON.stringify(stopped ? asStopped(status) : status);
    const text = `${stopped ? "event: end\n" : ""}data: ${data}\n\n`;
    return { bytes: new TextEncoder().encode(text), last: stopped || parting };
  }
}

/** The last event comes before the group has entered its last phase. */
function asStopped(status: Status): Status {
  const phases = status.phases.filter((phase) => phase !== "stopped");
  return { ...status, phase: "stopped", phases: [...phases, "stopped"] };
}
