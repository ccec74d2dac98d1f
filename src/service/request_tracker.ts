import { type Deferred, deferred, onAbort, settlesWithin } from "../_promises.ts";
import { type Clock, systemClock } from "../clock.ts";
import type { InFlight } from "../lifecycle/runnable.ts";
import { type AskableServer, canBeAsked, tellsEnd } from "./_exchange.ts";
import { trackedBody } from "./_tracked_body.ts";

/** Answers a request, now or later. */
export type Answer = () => Response | Promise<Response>;

/** A request that is under way. */
export interface RequestTicket {
  /** The request itself. */
  readonly request: Request;
  /** By the clock's monotonic reading. */
  readonly since: number;
}

/** An answer of which the server has to be asked whether it has gone out. */
interface Sent {
  readonly ticket: RequestTicket;
  readonly server: AskableServer;
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
  readonly #tickets = new Set<RequestTicket>();
  #sent: Sent[] = [];
  #sweepAt = FEWEST_TO_SWEEP;
  #asks = false;
  #quiet: Deferred<void> | undefined;

  /** Counts from zero. */
  constructor(options: { readonly clock?: Clock } = {}) {
    this.#clock = options.clock ?? systemClock;
  }

  /** How many requests are under way. */
  get count(): number {
    this.#sweep();
    return this.#tickets.size;
  }

  /** What they are, by method and path, and how old. */
  get inFlight(): readonly InFlight[] {
    this.#sweep();
    const now = this.#clock.monotonic();
    return Array.from(this.#tickets, ({ request, since }) => ({
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
    const ticket = this.begin(request);
    const failed = (error: unknown) => {
      this.end(ticket);
      throw error;
    };
    try {
      const response = answer();
      if (!(response instanceof Promise)) return this.answered(ticket, response, exchange);
      return response.then((it) => this.answered(ticket, it, exchange), failed);
    } catch (error) {
      return failed(error);
    }
  }

  /** Counts a request from here on. Its ticket is for `answered`, or for `end` when there is no answer. */
  begin(request: Request): RequestTicket {
    const ticket = { request, since: this.#clock.monotonic() };
    this.#tickets.add(ticket);
    return ticket;
  }

  /** Counts a request until this answer has gone out. Hand on what it returns. */
  answered(ticket: RequestTicket, response: Response, exchange?: unknown): Response {
    if (canBeAsked(exchange)) {
      if (!this.#asks) this.#wake(); // whoever waits has to ask from now on
      this.#asks = true;
      if (this.#sent.push({ ticket, server: exchange }) >= this.#sweepAt) this.#sweep();
      return response;
    }
    const ended = () => this.end(ticket);
    return tellsEnd(exchange, ended) ? response : trackedBody(response, ended);
  }

  /** Counts a request no longer. */
  end(ticket: RequestTicket): void {
    this.#tickets.delete(ticket);
    if (this.#quiet !== undefined && this.#tickets.size === 0) this.#wake();
  }

  /** Forgets what has gone out by now. Between sweeps at least as much is added as was kept. */
  #sweep(): void {
    if (this.#sent.length === 0) return;
    this.#sent = this.#sent.filter(({ ticket, server }) => {
      const over = server.requestIP(ticket.request) === null;
      if (over) this.end(ticket);
      return !over;
    });
    this.#sweepAt = Math.max(FEWEST_TO_SWEEP, 2 * this.#sent.length);
  }

  #wake(): void {
    this.#quiet?.resolve();
    this.#quiet = undefined;
  }
}
