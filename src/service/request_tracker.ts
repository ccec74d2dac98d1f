import { type Deferred, deferred, onAbort, settlesWithin } from "../_promises.ts";
import { type Clock, systemClock } from "../clock.ts";
import type { InFlight } from "../lifecycle/runnable.ts";
import { isPollable, onResponseEnd, type PollableServer, trackedBody } from "./_response_end.ts";

/** Returns the response to a request. */
export type Answer = () => Response | Promise<Response>;

/** A request in flight. */
export interface RequestTicket {
  /** The request itself. */
  readonly request: Request;
  /** When it began, in milliseconds of the monotonic clock. */
  readonly since: number;
}

/** A response whose end the server must be polled for. */
interface Sent {
  readonly ticket: RequestTicket;
  readonly server: PollableServer;
}

/** How often to poll the server while a caller waits for `idle`. */
const POLL_MS = 10;
/** The smallest number of polled responses that triggers a sweep. */
const MIN_TO_SWEEP = 64;

/**
 * Counts requests until their responses are sent to the last byte, or until the client disconnects. A
 * request always counts while its handler runs.
 *
 * The servers of Deno, Bun and Node report when a response is sent. Elsewhere the tracker wraps the body
 * of the response.
 *
 * @example
 * ```ts
 * import { RequestTracker } from "@lastcall/lastcall/service";
 *
 * const tracker = new RequestTracker();
 * const answer = await tracker.track(new Request("http://here/tea"), () => new Response("tea"));
 * console.assert(tracker.count === 1); // the body is not read yet
 * await answer.text();
 * console.assert(tracker.count === 0);
 * ```
 */
export class RequestTracker {
  readonly #clock: Clock;
  readonly #tickets = new Set<RequestTicket>();
  #sent: Sent[] = [];
  #sweepAt = MIN_TO_SWEEP;
  #polls = false;
  #quiet: Deferred<void> | undefined;

  /** Creates a tracker without requests. */
  constructor(options: { readonly clock?: Clock } = {}) {
    this.#clock = options.clock ?? systemClock;
  }

  /** The number of requests in flight. */
  get count(): number {
    this.#sweep();
    return this.#tickets.size;
  }

  /** The requests in flight, by method and path, with their ages. */
  get inFlight(): readonly InFlight[] {
    this.#sweep();
    const now = this.#clock.monotonic();
    return Array.from(this.#tickets, ({ request, since }) => ({
      id: `${request.method} ${new URL(request.url).pathname}`,
      ageMs: now - since,
    }));
  }

  /** Resolves to true when no request is in flight, to false when `signal` aborts first. */
  async idle(options: { readonly signal?: AbortSignal } = {}): Promise<boolean> {
    const { signal } = options;
    while (this.count > 0 && signal?.aborted !== true) {
      const quiet = this.#quiet ??= deferred();
      const unlink = onAbort(signal, () => this.#wake());
      await settlesWithin(quiet.promise, this.#polls ? POLL_MS : Infinity, this.#clock);
      unlink();
    }
    return this.count === 0;
  }

  /** Calls `answer` and counts the request. `exchange` is the second argument of the server's handler. */
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

  /** Counts a request from now on. Pass its ticket to `answered`, or to `end` without a response. */
  begin(request: Request): RequestTicket {
    const ticket = { request, since: this.#clock.monotonic() };
    this.#tickets.add(ticket);
    return ticket;
  }

  /** Counts a request until this response is sent. Use the response that it returns. */
  answered(ticket: RequestTicket, response: Response, exchange?: unknown): Response {
    if (isPollable(exchange)) {
      if (!this.#polls) this.#wake(); // a waiting `idle` has to poll from now on
      this.#polls = true;
      if (this.#sent.push({ ticket, server: exchange }) >= this.#sweepAt) this.#sweep();
      return response;
    }
    const ended = () => this.end(ticket);
    return onResponseEnd(exchange, ended) ? response : trackedBody(response, ended);
  }

  /** Stops counting a request. */
  end(ticket: RequestTicket): void {
    this.#tickets.delete(ticket);
    if (this.#quiet !== undefined && this.#tickets.size === 0) this.#wake();
  }

  /** Removes the responses that are sent. The threshold doubles, so that sweeps cost O(1) per request. */
  #sweep(): void {
    if (this.#sent.length === 0) return;
    this.#sent = this.#sent.filter(({ ticket, server }) => {
      const over = server.requestIP(ticket.request) === null;
      if (over) this.end(ticket);
      return !over;
    });
    this.#sweepAt = Math.max(MIN_TO_SWEEP, 2 * this.#sent.length);
  }

  #wake(): void {
    this.#quiet?.resolve();
    this.#quiet = undefined;
  }
}
