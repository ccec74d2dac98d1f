import { type Deferred, deferred, onAbort, settlesWithin } from "../_promises.ts";
import { type Clock, systemClock } from "../clock.ts";
import type { InFlight } from "../lifecycle/runnable.ts";
import { watchExchange } from "./_exchange.ts";
import { trackedBody } from "./_tracked_body.ts";

/** Answers a request, now or later. */
export type Answer = () => Response | Promise<Response>;

interface Entry {
  readonly request: Request;
  readonly since: number;
  /** Set once the handler has answered, where the server has to be asked whether the answer went out. */
  over?: () => boolean;
}

/** How often a server that has to be asked is asked while somebody waits. */
const LOOK_MS = 10;
/** So many answers may have gone out before it is looked which. */
const FEWEST_TO_SWEEP = 64;

/**
 * Counts requests until their answers have gone out: to the last byte of a stream, or until the client
 * has gone. While a handler works its request counts, whoever has gone.
 *
 * The servers of Deno, Bun and Node tell when an answer is out, so nothing is done to it. Elsewhere the
 * body of the answer is watched.
 *
 * @example
 * ```ts
 * import { RequestTracker } from "@lastcall/lastcall/service";
 *
 * const tracker = new RequestTracker();
 * const answer = await tracker.track(new Request("http://here/tea"), () => new Response("tea"));
 * console.assert(tracker.count === 1); // nobody has read it yet
 * await answer.text();
 * console.assert(tracker.count === 0);
 * ```
 */
export class RequestTracker {
  readonly #clock: Clock;
  readonly #entries = new Set<Entry>();
  #sent: Entry[] = [];
  #sweepAt = FEWEST_TO_SWEEP;
  #asks = false;
  #quiet: Deferred<void> | undefined;

  constructor(options: { readonly clock?: Clock } = {}) {
    this.#clock = options.clock ?? systemClock;
  }

  /** How many requests are under way. */
  get count(): number {
    this.#sweep();
    return this.#entries.size;
  }

  /** What they are, by method and path, and how old. */
  get inFlight(): readonly InFlight[] {
    this.#sweep();
    const now = this.#clock.monotonic();
    return Array.from(this.#entries, ({ request, since }) => ({
      id: `${request.method} ${new URL(request.url).pathname}`,
      ageMs: now - since,
    }));
  }

  /** True once nothing is under way; false when `signal` aborts first. */
  async idle(options: { readonly signal?: AbortSignal } = {}): Promise<boolean> {
    const { signal } = options;
    while (this.count > 0 && signal?.aborted !== true) {
      const quiet = this.#quiet ??= deferred();
      const unlink = onAbort(signal, () => this.#wake());
      await settlesWithin(quiet.promise, this.#asks ? LOOK_MS : Infinity, this.#clock);
      unlink();
    }
    return this.count === 0;
  }

  /** Has a request answered. `exchange` is the second argument that the server gave the handler. */
  track(request: Request, answer: Answer, exchange?: unknown): Response | Promise<Response> {
    const entry: Entry = { request, since: this.#clock.monotonic() };
    this.#entries.add(entry);
    try {
      const response = answer();
      if (response instanceof Promise) return this.#later(entry, response, exchange);
      return this.#answered(entry, response, exchange);
    } catch (error) {
      this.#end(entry);
      throw error;
    }
  }

  async #later(entry: Entry, answer: Promise<Response>, exchange: unknown): Promise<Response> {
    try {
      return this.#answered(entry, await answer, exchange);
    } catch (error) {
      this.#end(entry);
      throw error;
    }
  }

  #answered(entry: Entry, response: Response, exchange: unknown): Response {
    const watch = watchExchange(exchange, entry.request, () => this.#end(entry));
    if (watch === "told") return response;
    if (watch === undefined) return trackedBody(response, () => this.#end(entry));
    if (!this.#asks) this.#wake(); // whoever waits has to ask from now on
    this.#asks = true;
    entry.over = watch;
    if (this.#sent.push(entry) >= this.#sweepAt) this.#sweep();
    return response;
  }

  /** Forgets what has gone out by now. Between sweeps at least as much is added as was kept. */
  #sweep(): void {
    if (this.#sent.length === 0) return;
    this.#sent = this.#sent.filter((entry) => {
      const over = entry.over?.() === true;
      if (over) this.#end(entry);
      return !over;
    });
    this.#sweepAt = Math.max(FEWEST_TO_SWEEP, 2 * this.#sent.length);
  }

  #end(entry: Entry): void {
    this.#entries.delete(entry);
    if (this.#entries.size === 0) this.#wake();
  }

  #wake(): void {
    this.#quiet?.resolve();
    this.#quiet = undefined;
  }
}
