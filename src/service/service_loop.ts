import { checkCount, checkOneOf } from "../_checks.ts";
import { contain, deferred, onAbort } from "../_promises.ts";
import { errorText } from "../errors.ts";
import { BaseLoop, type LoopContext, type LoopOptions } from "../lifecycle/base_loop.ts";
import type { InFlight } from "../lifecycle/runnable.ts";
import type { Metric, MetricSource } from "../telemetry/metrics.ts";
import { defaultRuntime, type HttpServer, type Runtime } from "../runtime.ts";
import { ServiceGate } from "./service_gate.ts";

/** Answers requests, like `app.fetch` of Hono. The server provides the second argument. */
export type FetchHandler = (request: Request, exchange: never) => Response | Promise<Response>;

/** Where a service listens. */
export interface ServiceAddress {
  /** The interface that the service listens on. */
  readonly hostname: string;
  /** The port that the service listens on. */
  readonly port: number;
}

/** Options of {@linkcode ServiceLoop}. */
export interface ServiceLoopOptions extends LoopOptions {
  /** The port; 0 for any free one. */
  readonly port: number;
  /** The interface to listen on. @default {"0.0.0.0", all interfaces} */
  readonly hostname?: string;
  /** Called when the service begins to listen, with its actual port. */
  readonly onListen?: (address: ServiceAddress) => void;
  /** Counts and refuses requests. Pass the same one to `drainable`. @default {a new gate} */
  readonly gate?: ServiceGate;
  /** Provides the server. @default {the runtime of this process} */
  readonly runtime?: Runtime;
}

/**
 * How long cancelled handlers have before their connections are closed. It is longer than the reserve of a
 * stop, so that the report can name them first.
 */
const CUT_OFF_DELAY_MS = 1_500;

/**
 * The listener refuses requests until none has arrived for this long, and at most `MAX_QUIET_WAIT_MS`.
 * Closing earlier would break the connection of a request on its way, and its client could not know
 * whether it was executed.
 */
const QUIET_MS = 200;
const MAX_QUIET_WAIT_MS = 1_000;

/**
 * Runs an HTTP service as a loop, beside loops that process messages.
 *
 * ```text
 * listening ── a stop ──▶ refusing ── none in flight ──▶ closed
 *                            │                             ▲
 *                            └── cancelled: signals ──▶ cut off
 * ```
 *
 * Once a stop begins, new requests get 503 with code 5006. The listener closes when all admitted requests
 * are answered and no request has arrived for 200 ms. Near the deadline, or when the stop is forced,
 * `gate.cancelling` aborts; the report names the requests that are left. `pause` and `resume` refuse and
 * admit requests without closing the listener.
 *
 * @example
 * ```ts
 * import { LoopGroup } from "@lastcall/lastcall";
 * import { ServiceLoop } from "@lastcall/lastcall/service";
 *
 * const service = new ServiceLoop("tea", () => new Response("tea"), {
 *   port: 0,
 *   hostname: "127.0.0.1",
 *   async onListen({ port }) {
 *     console.assert(await (await fetch(`http://127.0.0.1:${port}`)).text() === "tea");
 *     await group.shutdown();
 *   },
 * });
 * const group = new LoopGroup([service]);
 * console.assert((await group.run()).exitCode === 0);
 * ```
 */
export class ServiceLoop extends BaseLoop implements MetricSource {
  /** Counts and refuses requests. */
  readonly gate: ServiceGate;
  readonly #handler: FetchHandler;
  readonly #options: ServiceLoopOptions;
  #server: HttpServer | undefined;
  #stopping: AbortSignal | undefined;
  #cutOff = new AbortController();
  #lastRequestAt = -Infinity;

  /** Creates a service. It listens while `run` is active. */
  constructor(name: string, handler: FetchHandler, options: ServiceLoopOptions) {
    super(name, options);
    checkOneOf(`handler of service "${name}"`, typeof handler, ["function"]);
    checkCount("port", options.port, 0, 65_535);
    this.gate = options.gate ?? new ServiceGate({ name, clock: this.clock });
    this.#handler = handler;
    this.#options = options;
  }

  /** The address that it listens on; undefined while it does not. */
  get address(): ServiceAddress | undefined {
    return this.#server && { hostname: this.#server.hostname, port: this.#server.port };
  }

  /** True while it listens and admits requests. */
  get ready(): boolean {
    return this.#server !== undefined && !this.gate.closed;
  }

  /** The requests in flight. */
  override get inFlight(): readonly InFlight[] {
    return this.gate.inFlight;
  }

  /** Returns the metrics of its gate. */
  metrics(): readonly Metric[] {
    return this.gate.metrics();
  }

  /** Refuses new requests until `resume`. Resolves when all admitted ones are answered. */
  override async pause(): Promise<void> {
    await super.pause();
    this.gate.close();
    if (!this.callerIsInside) await this.gate.idle();
  }

  /** Admits requests again. */
  override resume(): void {
    super.resume();
    if (this.#stopping?.aborted !== true) this.gate.open();
  }

  /** Closes the remaining connections, because the process is about to end. */
  async abandon(): Promise<void> {
    this.#cutOff.abort();
    await Promise.resolve();
  }

  /** Listens until the stop, and then until the last request is answered. */
  protected override async work({ stopping, signal }: LoopContext): Promise<void> {
    this.#cutOff = new AbortController();
    this.#stopping = stopping;
    if (!this.paused) this.gate.open();
    this.heartbeat.rest(); // no request may arrive for hours
    const server = this.#server = await this.#listen();
    const unhost = this.gate.host();
    let unschedule: () => void = () => {};
    const stopBegan = deferred();
    onAbort(stopping, () => {
      this.gate.close(); // synchronously, so that no request is admitted after the stop
      stopBegan.resolve();
    });
    const unlink = onAbort(signal, () => {
      this.gate.cancel(signal.reason);
      unschedule = this.clock.schedule(CUT_OFF_DELAY_MS, () => this.#cutOff.abort());
    });
    try {
      await Promise.race([stopBegan.promise, this.#listenFailure(server)]);
    } finally {
      this.gate.close();
      await this.gate.idle({ signal: this.#cutOff.signal });
      await this.#waitForQuiet(this.#cutOff.signal);
      this.#server = undefined;
      await server.close({ signal: this.#cutOff.signal });
      unlink();
      unschedule();
      unhost();
    }
  }

  /** Waits until no request has arrived for `QUIET_MS`. An idle service does not wait. */
  async #waitForQuiet(signal: AbortSignal): Promise<void> {
    const latest = this.clock.monotonic() + MAX_QUIET_WAIT_MS;
    while (!signal.aborted) {
      const ms = Math.min(this.#lastRequestAt + QUIET_MS, latest) - this.clock.monotonic();
      if (ms <= 0) return;
      await this.clock.sleep(ms, { signal }).catch(() => {});
      await this.gate.idle({ signal }); // a refusal may still be on its way out
    }
  }

  /** Calls `onListen`. Rejects with its error, which fails the loop. */
  #listenFailure({ hostname, port }: HttpServer): Promise<never> {
    return new Promise((_, reject) => {
      contain(() => this.#options.onListen?.({ hostname, port }), reject);
    });
  }

  async #listen(): Promise<HttpServer> {
    const { port, hostname = "0.0.0.0", runtime = defaultRuntime() } = this.#options;
    if (runtime.serve === undefined) {
      throw new Error(
        `Service "${this.name}" cannot listen: the runtime "${runtime.name}" cannot serve HTTP; ` +
          "pass a `runtime` that can",
      );
    }
    const handle = (request: Request, exchange?: unknown) => {
      if (!this.gate.exempts(request)) this.#lastRequestAt = this.clock.monotonic();
      return this.gate.handle(request, () => this.#handler(request, exchange as never), exchange);
    };
    try {
      return await runtime.serve(handle, { port, hostname });
    } catch (error) {
      throw new Error(
        `Service "${this.name}" cannot listen on ${hostname}:${port}: ${listenErrorText(error)}`,
        { cause: error },
      );
    }
  }
}

function listenErrorText(error: unknown): string {
  const { code, name, message } = Object(error);
  if (code === "EADDRINUSE" || name === "AddrInUse") {
    return "the port is taken; stop the program that uses it, or choose another port";
  }
  if (code === "EACCES" || name === "PermissionDenied") {
    return "permission denied; allow it, or choose a port from 1024 on";
  }
  return errorText(message ?? error);
}
