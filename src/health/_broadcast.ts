import type { Cancel, Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { StatusSource } from "./_status_source.ts";
import type { Inspectable } from "./health_options.ts";
import type { AgentStatusLine, LoopStatus, MailboxStatus, Status } from "./status.ts";

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

type Client = ReadableStreamDefaultController<Uint8Array>;

const TICK_MS = 1_000;
/** Changes within this time are sent in one event. */
const SOON_MS = 100;
/** A slow client misses events and gets the next one. */
const MAX_UNREAD = 8;
const MAX_CLIENTS = 100;

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
  readonly #clients = new Set<Client>();
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
    return this.#clients.size >= MAX_CLIENTS;
  }

  /** Returns the events for one client. It starts when it is read, so that a response to HEAD costs nothing. */
  stream(): ReadableStream<Uint8Array> {
    let client: Client | undefined;
    return new ReadableStream<Uint8Array>({
      pull: (controller) => {
        if (client !== undefined) return;
        client = controller;
        this.#join(controller);
      },
      cancel: () => void (client && this.#leave(client)),
    }, { highWaterMark: 0 });
  }

  /** Sends the last event, because the loops have stopped and the server is about to close. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#send(this.#clients);
    for (const client of this.#clients) this.#end(client); // if the event could not be sent
  }

  async #join(client: Client): Promise<void> {
    this.#clients.add(client);
    if (this.#clients.size === 1) this.#startTimers();
    client.enqueue(new TextEncoder().encode(RETRY));
    if (!this.#closed) await this.#source.refreshed(); // the engines may not have been asked yet
    if (this.#clients.has(client)) this.#send([client]);
  }

  #leave(client: Client): void {
    if (this.#clients.delete(client) && this.#clients.size === 0) this.#stopTimers();
  }

  #startTimers(): void {
    const { clock } = this.#options;
    this.#removers = [
      // Deferred, so that the group has finished entering the phase.
      this.#group.on?.("phase", () => queueMicrotask(() => this.#send(this.#clients))) ??
        (() => {}),
      this.#group.on?.("loop", () => this.#sendSoon()) ?? (() => {}),
    ];
    const tick = () => {
      this.#cancelTick = clock.schedule(TICK_MS, tick);
      this.#send(this.#clients);
    };
    this.#cancelTick = clock.schedule(TICK_MS, tick);
  }

  #stopTimers(): void {
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
      this.#send(this.#clients);
    });
  }

  #send(clients: Iterable<Client>): void {
    if (this.#clients.size === 0) return;
    let event: { readonly bytes: Uint8Array; readonly last: boolean };
    try {
      event = this.#event(excerpt(this.#source.known()));
    } catch (error) {
      this.#options.log.error("status event not sent", { error });
      return;
    }
    this.#sentAt = this.#options.clock.monotonic();
    for (const client of [...clients]) {
      if (event.last || (client.desiredSize ?? 0) > -MAX_UNREAD) client.enqueue(event.bytes);
      if (event.last) this.#end(client);
    }
  }

  #end(client: Client): void {
    client.close();
    this.#leave(client);
  }

  #event(status: Status): { readonly bytes: Uint8Array; readonly last: boolean } {
    const stopped = this.#closed || status.phase === "stopped";
    const ending = !this.#options.hosted && (status.stop !== undefined || status.paused);
    const data = JSON.stringify(stopped ? asStopped(status) : status);
    const text = `${stopped ? "event: end\n" : ""}data: ${data}\n\n`;
    return { bytes: new TextEncoder().encode(text), last: stopped || ending };
  }
}

/** The last event is sent before the group enters its last phase. */
function asStopped(status: Status): Status {
  const phases = status.phases.filter((phase) => phase !== "stopped");
  return { ...status, phase: "stopped", phases: [...phases, "stopped"] };
}

/** The most entries of an event, because every client gets one per second. */
const MAX = { loops: 100, mailboxes: 50, agents: 100, work: 400, messages: 100 } as const;

/** Shortens a status for an event: failing entries first, then busy ones. Counts the omitted ones. */
export function excerpt(status: Status): Status {
  const { agents } = status;
  const loops = mostUrgent(status.loops, MAX.loops, urgencyOfLoop);
  const mailboxes = mostUrgent(status.mailboxes, MAX.mailboxes, urgencyOfMailbox);
  const someAgents = agents && mostUrgent(agents, MAX.agents, urgencyOfAgent);
  const perLoop = (most: number) => Math.max(1, Math.floor(most / Math.max(1, loops.length)));
  return {
    ...status,
    loops: loops.map(({ work, messages, ...loop }) => ({
      ...loop,
      work: work.slice(0, perLoop(MAX.work)),
      ...(messages && { messages: messages.slice(0, perLoop(MAX.messages)) }),
    })),
    mailboxes,
    ...(someAgents && { agents: someAgents }),
    leftOut: {
      loops: status.loops.length - loops.length,
      mailboxes: status.mailboxes.length - mailboxes.length,
      agents: (agents?.length ?? 0) - (someAgents?.length ?? 0),
    },
  };
}

/** Returns the `most` urgent entries in their original order. */
function mostUrgent<T>(all: readonly T[], most: number, urgency: (it: T) => number): readonly T[] {
  if (all.length <= most) return all;
  const ranked = all.map((it, place) => ({ it, place, urgency: urgency(it) }));
  return ranked.sort((a, b) => b.urgency - a.urgency || a.place - b.place)
    .slice(0, most).sort((a, b) => a.place - b.place).map(({ it }) => it);
}

/** Ranks failing loops first, then busy loops by the age of their work. */
function urgencyOfLoop({ state, ready, inFlight, oldestMs }: LoopStatus): number {
  if (state === "failed" || state === "hung" || state === "backing_off") return Infinity;
  if (!ready && state === "running") return Number.MAX_VALUE;
  return inFlight > 0 ? 1 + oldestMs : 0;
}

function urgencyOfMailbox({ reachable, dead = 0, messages = 0 }: MailboxStatus): number {
  if (!reachable) return Infinity;
  return dead > 0 ? Number.MAX_VALUE : messages;
}

function urgencyOfAgent({ status }: AgentStatusLine): number {
  return ["shutdown_complete", "running", "shutting_down"].indexOf(status) + 1 || 4;
}
