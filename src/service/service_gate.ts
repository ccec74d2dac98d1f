import type { Context, MiddlewareHandler } from "hono";
import { checkDuration } from "../_checks.ts";
import type { Clock } from "../clock.ts";
import { type CancelledError, isTerminatingError, TerminatingError } from "../errors.ts";
import type { InFlight } from "../lifecycle/runnable.ts";
import { type Metric, metric, type MetricSource, samplesBy } from "../telemetry/metrics.ts";
import { type Answer, type RequestTicket, RequestTracker } from "./request_tracker.ts";
import { terminatingResponse } from "./service_errors.ts";

/** Options of {@linkcode ServiceGate}. */
export interface ServiceGateOptions {
  /** The label of its metrics. @default {"service"} */
  readonly name?: string;
  /** The `Retry-After` of refused requests, rounded up to seconds. @default {1_000} */
  readonly retryAfterMs?: number;
  /**
   * Returns true for requests that are answered even while the gate is closed, such as probes.
   *
   * @default {the paths of `healthApp`, except its page: `/health/…`, `/metrics`, `/status`, `/events` and the controls}
   */
  readonly exempt?: (request: Request) => boolean;
  /** Measures the ages of requests. @default {systemClock} */
  readonly clock?: Clock;
}

/**
 * Admits and counts the requests of a service. While the gate is closed, new requests get 503 with code
 * 5006, and admitted ones go on until they are answered. WebSockets always get 501.
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
  /** Counts the admitted requests. */
  readonly tracker: RequestTracker;
  readonly #retryAfterMs: number;
  readonly #exempt: (request: Request) => boolean;
  #closed = false;
  #stopping = new AbortController();
  #cancelling = new AbortController();
  #hosts = 0;
  #admitted = 0;
  #refused = 0;

  /** Creates an open gate. */
  constructor(options: ServiceGateOptions = {}) {
    this.name = options.name ?? "service";
    this.#retryAfterMs = checkDuration("retryAfterMs", options.retryAfterMs ?? 1_000);
    this.#exempt = options.exempt ?? isProbe;
    this.tracker = new RequestTracker(options);
  }

  /** True while the gate refuses new requests. */
  get closed(): boolean {
    return this.#closed;
  }

  /** Aborts when the gate closes: end streams without an end now. */
  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  /** Aborts when requests in flight must end now, with a `CancelledError` as its reason. */
  get cancelling(): AbortSignal {
    return this.#cancelling.signal;
  }

  /** True while a server passes every request through this gate, so that middleware need not. */
  get hosted(): boolean {
    return this.#hosts > 0;
  }

  /** The number of requests in flight. */
  get count(): number {
    return this.tracker.count;
  }

  /** The requests in flight and their ages. */
  get inFlight(): readonly InFlight[] {
    return this.tracker.inFlight;
  }

  /** Resolves to true when no request is in flight, to false when `signal` aborts first. */
  idle(options: { readonly signal?: AbortSignal } = {}): Promise<boolean> {
    return this.tracker.idle(options);
  }

  /** Refuses new requests from now on. */
  close(): void {
    this.#closed = true;
    this.#stopping.abort(new TerminatingError("The service is stopping"));
  }

  /** Closes the gate and cancels the requests in flight. */
  cancel(reason: CancelledError): void {
    this.close();
    this.#cancelling.abort(reason);
  }

  /** Admits requests again. */
  open(): void {
    if (this.#closed) this.#stopping = new AbortController();
    if (this.#cancelling.signal.aborted) this.#cancelling = new AbortController();
    this.#closed = false;
  }

  /** Marks the gate as hosted by a server, until the returned function is called. */
  host(): () => void {
    this.#hosts++;
    return () => void this.#hosts--;
  }

  /**
   * Calls `answer`, or refuses the request. `exchange` is the second argument of the server's handler,
   * `c.env` in Hono. A `TerminatingError` of `answer` becomes a 503 as well.
   */
  handle(request: Request, answer: Answer, exchange?: unknown): Response | Promise<Response> {
    const refusal = this.refusalOf(request);
    if (refusal !== undefined) return refusal;
    if (this.#closed) return answer(); // exempt
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

  /** Returns true for a request that is answered even while the gate is closed, such as a probe. */
  exempts(request: Request): boolean {
    return this.#exempt(request);
  }

  /**
   * Returns the response to a refused request: one that arrives while the gate is closed, or one for a
   * WebSocket, whose end no server of the three runtimes reports. Returns undefined for all others.
   */
  refusalOf(request: Request): Response | undefined {
    if (isWebSocket(request)) {
      this.#refused++;
      return webSocketResponse();
    }
    return this.#closed && !this.#exempt(request) ? this.refusal() : undefined;
  }

  /** Counts a request. Pass its ticket to `tracker.answered`, or to `tracker.end` without a response. */
  admit(request: Request): RequestTicket {
    this.#admitted++;
    return this.tracker.begin(request);
  }

  /** Returns the 503 with code 5006. `started` says that the handler had begun the request. */
  refusal(options: { readonly started?: boolean } = {}): Response {
    this.#refused++;
    return terminatingResponse({ ...options, retryAfterMs: this.#retryAfterMs });
  }

  /** Returns the counts of admitted and refused requests and of those in flight. */
  metrics(): readonly Metric[] {
    const labels = { service: this.name };
    const outcomes = { admitted: this.#admitted, refused: this.#refused };
    return [
      metric("lastcall_service_requests_total", samplesBy("outcome", outcomes, labels)),
      metric("lastcall_service_in_flight", this.count, labels),
    ];
  }

  #failed(ticket: RequestTicket, error: unknown): Response {
    this.tracker.end(ticket);
    if (isTerminatingError(error)) return this.refusal({ started: true });
    throw error;
  }
}

const PROBES =
  /^\/(health(\/.*)?|metrics|status|events|controls|pause|resume|redrive|dead-letters)$/;

function isProbe(request: Request): boolean {
  return PROBES.test(new URL(request.url).pathname);
}

function isWebSocket({ headers }: Request): boolean {
  return headers.get("upgrade")?.toLowerCase() === "websocket";
}

function webSocketResponse(): Response {
  const message = "This service does not accept WebSockets: use server-sent events, or serve " +
    "WebSockets outside of its gate (see the guide on services)";
  return Response.json({ error: { name: "WEBSOCKETS_UNSUPPORTED", message } }, {
    status: 501,
    headers: { connection: "close" },
  });
}

/** The context variables that {@linkcode drainable} sets for handlers. */
export interface DrainableVariables {
  /** Aborts when the service begins to stop: end streams without an end, such as server-sent events. */
  readonly stopping: AbortSignal;
  /** Aborts when the request must end now. */
  readonly cancelling: AbortSignal;
}

/**
 * Hono middleware. It counts requests while the gate is open, and answers 503 with code 5006 while it is
 * closed. Handlers find the gate's signals as `c.var.stopping` and `c.var.cancelling`. Use it before other
 * middleware. Behind a `ServiceLoop` with the same gate it only sets the signals.
 *
 * @example
 * ```ts
 * import { Hono } from "hono";
 * import { drainable, ServiceGate } from "@lastcall/lastcall/service";
 *
 * const gate = new ServiceGate();
 * const app = new Hono().use(drainable(gate)).get("/", (c) => c.text(String(c.var.stopping.aborted)));
 * console.assert(await (await app.request("/")).text() === "false");
 * gate.close();
 * console.assert((await app.request("/")).status === 503);
 * ```
 */
export function drainable(gate: ServiceGate): MiddlewareHandler<{ Variables: DrainableVariables }> {
  return async (context, next) => {
    const { raw: request } = context.req;
    const refusal = gate.hosted ? undefined : gate.refusalOf(request);
    if (refusal !== undefined) return refusal;
    context.set("stopping", gate.stopping);
    context.set("cancelling", gate.cancelling);
    const ticket = gate.hosted || gate.closed ? undefined : gate.admit(request);
    try {
      await next();
      // Hono has answered the error already, and keeps it in `context.error`.
      if (isTerminatingError(context.error)) {
        replace(context, gate.refusal({ started: true }));
      }
    } catch (error) {
      if (ticket !== undefined) gate.tracker.end(ticket);
      throw error;
    }
    if (ticket === undefined) return;
    const response = gate.tracker.answered(ticket, context.res, context.env);
    if (response !== context.res) replace(context, response);
  };
}

/** Replaces the response. Hono would otherwise keep the headers of the previous one. */
function replace(context: Context, response: Response): void {
  context.res = undefined;
  context.res = response;
}
