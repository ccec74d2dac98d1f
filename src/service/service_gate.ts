import { checkDuration } from "../_checks.ts";
import type { Clock } from "../clock.ts";
import { type CancelledError, isTerminatingError, TerminatingError } from "../errors.ts";
import type { Metric, MetricSource } from "../health/metric_source.ts";
import type { InFlight } from "../lifecycle/runnable.ts";
import { type Answer, type RequestTicket, RequestTracker } from "./request_tracker.ts";
import { terminatingResponse } from "./terminating_response.ts";

/** Options of {@linkcode ServiceGate}. */
export interface ServiceGateOptions {
  /** The label of its metrics. @default {"service"} */
  readonly name?: string;
  /** What refused clients are told to wait, in whole seconds. @default {1_000} */
  readonly retryAfterMs?: number;
  /**
   * Requests that are answered also while the gate is closed, as those of probes.
   *
   * @default {the paths of `healthApp`, except its page: `/health/…`, `/metrics`, `/status`, `/events`, `/drain` and those beside it}
   */
  readonly exempt?: (request: Request) => boolean;
  /** What the ages of requests are measured by. @default {systemClock} */
  readonly clock?: Clock;
}

/**
 * The door of a service. While it is open requests are let in and counted. Once it is closed new ones
 * get 503 with code 5006, and those inside go on until they are done. WebSockets always get 501.
 *
 * ```text
 * open ── close() ──▶ closed: `stopping` aborts ── cancel() ──▶ `cancelling` aborts
 *   ▲                                                                 │
 *   └───────────────────── open(): fresh signals ─────────────────────┘
 * ```
 *
 * @example
 * ```ts
 * import { ServiceGate } from "@lastcall/lastcall/service";
 *
 * const gate = new ServiceGate();
 * gate.close();
 * const answer = await gate.handle(new Request("http://here/"), () => new Response("tea"));
 * console.assert(answer.status === 503);
 * console.assert((await answer.json()).error.code === 5006);
 * ```
 */
export class ServiceGate implements MetricSource {
  /** The label of its metrics. */
  readonly name: string;
  /** Counts who is inside. */
  readonly tracker: RequestTracker;
  readonly #retryAfterMs: number;
  readonly #exempt: (request: Request) => boolean;
  #closed = false;
  #stopping = new AbortController();
  #cancelling = new AbortController();
  #hosts = 0;
  #admitted = 0;
  #refused = 0;

  /** Open. */
  constructor(options: ServiceGateOptions = {}) {
    this.name = options.name ?? "service";
    this.#retryAfterMs = checkDuration("retryAfterMs", options.retryAfterMs ?? 1_000);
    this.#exempt = options.exempt ?? isProbe;
    this.tracker = new RequestTracker(options);
  }

  /** True while new requests are refused. */
  get closed(): boolean {
    return this.#closed;
  }

  /** Aborts when the gate closes: a stream without an end should find one now. */
  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  /** Aborts when those inside must end now, with a `CancelledError` as its reason. */
  get cancelling(): AbortSignal {
    return this.#cancelling.signal;
  }

  /** True while a server has every request pass here: middleware then need not. */
  get hosted(): boolean {
    return this.#hosts > 0;
  }

  /** How many requests are inside. */
  get count(): number {
    return this.tracker.count;
  }

  /** Which ones, and how old. */
  get inFlight(): readonly InFlight[] {
    return this.tracker.inFlight;
  }

  /** True once nobody is inside; false when `signal` aborts first. */
  idle(options: { readonly signal?: AbortSignal } = {}): Promise<boolean> {
    return this.tracker.idle(options);
  }

  /** Lets nobody in from now on. */
  close(): void {
    this.#closed = true;
    this.#stopping.abort(new TerminatingError("The service is stopping"));
  }

  /** Tells those inside to end now. */
  cancel(reason: CancelledError): void {
    this.close();
    this.#cancelling.abort(reason);
  }

  /** Lets requests in again. */
  open(): void {
    if (this.#closed) this.#stopping = new AbortController();
    if (this.#cancelling.signal.aborted) this.#cancelling = new AbortController();
    this.#closed = false;
  }

  /** Says that a server has every request pass here. Returns how to take it back. */
  host(): () => void {
    this.#hosts++;
    return () => void this.#hosts--;
  }

  /**
   * Has a request answered, or refuses it. `exchange` is the second argument that the server gave the
   * handler, `c.env` in Hono. What throws a `TerminatingError` is answered as what was refused.
   */
  handle(request: Request, answer: Answer, exchange?: unknown): Response | Promise<Response> {
    const refusal = this.refusalOf(request);
    if (refusal !== undefined) return refusal;
    if (this.#closed) return answer(); // it is exempt
    const ticket = this.admit(request);
    try {
      const response = answer();
      if (!(response instanceof Promise)) return this.tracker.answered(ticket, response, exchange);
      return response.then(
        (it) => this.tracker.answered(ticket, it, exchange),
        (error) => this.#failed(ticket, error),
      );
    } catch (error) {
      return this.#failed(ticket, error);
    }
  }

  /** True for a request that is answered also while the gate is closed, as one of a probe. */
  exempts(request: Request): boolean {
    return this.#exempt(request);
  }

  /**
   * The answer to a request that is not let in: one that comes while the gate is closed, and one for a
   * WebSocket, whose end no server of the three runtimes tells. Undefined for all others.
   */
  refusalOf(request: Request): Response | undefined {
    if (isWebSocket(request)) {
      this.#refused++;
      return webSocketResponse();
    }
    return this.#closed && !this.#exempt(request) ? this.refusal() : undefined;
  }

  /** Counts a request in. Its ticket is for `tracker.answered`, or `tracker.end` without an answer. */
  admit(request: Request): RequestTicket {
    this.#admitted++;
    return this.tracker.begin(request);
  }

  /** The answer that says TERMINATING; `started` when the request was let in and its handler gave up. */
  refusal(options: { readonly started?: boolean } = {}): Response {
    this.#refused++;
    return terminatingResponse({ ...options, retryAfterMs: this.#retryAfterMs });
  }

  /** How many were let in, how many refused, and how many are inside. */
  metrics(): readonly Metric[] {
    const labels = { service: this.name };
    const sample = (value: number, more = {}) => ({ labels: { ...labels, ...more }, value });
    return [{
      name: "lastcall_service_requests_total",
      help: "Requests by what became of them at the door",
      type: "counter",
      samples: [
        sample(this.#admitted, { outcome: "admitted" }),
        sample(this.#refused, { outcome: "refused" }),
      ],
    }, {
      name: "lastcall_service_in_flight",
      help: "Requests that were let in and whose answers have not gone out",
      type: "gauge",
      samples: [sample(this.count)],
    }];
  }

  #failed(ticket: RequestTicket, error: unknown): Response {
    this.tracker.end(ticket);
    if (isTerminatingError(error)) return this.refusal({ started: true });
    throw error;
  }
}

const PROBES =
  /^\/(health(\/.*)?|metrics|status|events|controls|drain|resume|redrive|dead-letters)$/;

function isProbe(request: Request): boolean {
  return PROBES.test(new URL(request.url).pathname);
}

function isWebSocket({ headers }: Request): boolean {
  return headers.get("upgrade")?.toLowerCase() === "websocket";
}

function webSocketResponse(): Response {
  const message = "This service takes no WebSockets: use server-sent events, or have WebSockets " +
    "served outside of its gate (see the guide on services)";
  return Response.json({ error: { name: "WEBSOCKETS_UNSUPPORTED", message } }, {
    status: 501,
    headers: { connection: "close" },
  });
}
