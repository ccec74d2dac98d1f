import { checkCount, checkOneOf } from "../_checks.ts";
import { contain, deferred, onAbort } from "../_promises.ts";
import { errorText } from "../errors.ts";
import { BaseLoop, type LoopContext, type LoopOptions } from "../lifecycle/base_loop.ts";
import type { InFlight } from "../lifecycle/runnable.ts";
import type { Metric, MetricSource } from "../health/metric_source.ts";
import { defaultRuntime, type HttpServer, type Runtime } from "../runtime.ts";
import { ServiceGate } from "./service_gate.ts";

/** Answers requests, as `app.fetch` of Hono does. The second argument is the server's own. */
export type FetchHandler = (request: Request, exchange: never) => Response | Promise<Response>;

/** Where a service listens. */
export interface ServiceAddress {
  /** The interface that it listens on. */
  readonly hostname: string;
  /** The one that it got. */
  readonly port: number;
}

/** Options of {@linkcode ServiceLoop}. */
export interface ServiceLoopOptions extends LoopOptions {
  /** Where to listen; 0 for any port that is free. */
  readonly port: number;
  /** Where to listen; on all interfaces unless told. @default {"0.0.0.0"} */
  readonly hostname?: string;
  /** Called whenever it begins to listen, with the port that it got. */
  readonly onListen?: (address: ServiceAddress) => void;
  /** Counts and refuses requests; hand it to `drainable` as well. @default {one of its own} */
  readonly gate?: ServiceGate;
  /** Where the server comes from. @default {the one this program runs on} */
  readonly runtime?: Runtime;
}

/**
 * Handlers that were told to end have this long before their connections are cut. It is longer than what
 * a stop keeps for them, so that a report can name them first.
 */
const LAST_WORDS_MS = 1_500;

/**
 * The listener goes on refusing until no request has come for this long, and `LAST_CALLS_MAX_MS` at most.
 * A request that was on its way would be cut off, and no client can know whether it was executed.
 */
const LAST_CALLS_MS = 200;
const LAST_CALLS_MAX_MS = 1_000;

/**
 * An HTTP service as a loop, beside loops that work off messages.
 *
 * ```text
 * listening ── a stop ──▶ refusing ── nobody inside ──▶ closed
 *                            │                            ▲
 *                            └── cancelled: signals ──▶ cut off
 * ```
 *
 * From the first moment of a stop new requests get 503 with code 5006, and the listener goes on saying so
 * until those inside are done and none has come for 200 ms. Near the deadline, or when the stop is forced, `gate.cancelling` aborts;
 * whoever is left then is named in the report. `drain` and `resume` do the same without closing.
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
  #lastAskedAt = -Infinity;

  /** Makes a service; it listens from `run` on. */
  constructor(name: string, handler: FetchHandler, options: ServiceLoopOptions) {
    super(name, options);
    checkOneOf(`handler of service "${name}"`, typeof handler, ["function"]);
    checkCount("port", options.port, 0, 65_535);
    this.gate = options.gate ?? new ServiceGate({ name, clock: this.clock });
    this.#handler = handler;
    this.#options = options;
  }

  /** Where it listens; undefined while it does not. */
  get address(): ServiceAddress | undefined {
    return this.#server && { hostname: this.#server.hostname, port: this.#server.port };
  }

  /** True while it listens and lets requests in. */
  get ready(): boolean {
    return this.#server !== undefined && !this.gate.closed;
  }

  /** The requests that are not answered yet. */
  override get inFlight(): readonly InFlight[] {
    return this.gate.inFlight;
  }

  /** Those of its gate. */
  metrics(): readonly Metric[] {
    return this.gate.metrics();
  }

  /** Refuses new requests until `resume`; resolves when the others are answered. */
  override async drain(): Promise<void> {
    await super.drain();
    this.gate.close();
    if (!this.callerIsInside) await this.gate.idle();
  }

  /** Lets requests in again. */
  override resume(): void {
    super.resume();
    if (this.#stopping?.aborted !== true) this.gate.open();
  }

  /** The process ends in a moment: cuts off whoever is left. */
  async abandon(): Promise<void> {
    this.#cutOff.abort();
    await Promise.resolve();
  }

  /** Listens until the stop, and then until the last request is answered. */
  protected override async work({ stopping, signal }: LoopContext): Promise<void> {
    this.#cutOff = new AbortController();
    this.#stopping = stopping;
    if (!this.drained) this.gate.open();
    this.heartbeat.rest(); // nobody may come for hours
    const server = this.#server = await this.#listen();
    const unhost = this.gate.host();
    let unschedule: () => void = () => {};
    const told = deferred();
    onAbort(stopping, () => {
      this.gate.close(); // now, and not in the next turn
      told.resolve();
    });
    const unlink = onAbort(signal, () => {
      this.gate.cancel(signal.reason);
      unschedule = this.clock.schedule(LAST_WORDS_MS, () => this.#cutOff.abort());
    });
    try {
      await Promise.race([told.promise, this.#listenFailure(server)]);
    } finally {
      this.gate.close();
      await this.gate.idle({ signal: this.#cutOff.signal });
      await this.#lastCalls(this.#cutOff.signal);
      this.#server = undefined;
      await server.close({ signal: this.#cutOff.signal });
      unlink();
      unschedule();
      unhost();
    }
  }

  /** Waits until no request has come for a moment; a service that was idle before waits for nothing. */
  async #lastCalls(signal: AbortSignal): Promise<void> {
    const latest = this.clock.monotonic() + LAST_CALLS_MAX_MS;
    while (!signal.aborted) {
      const ms = Math.min(this.#lastAskedAt + LAST_CALLS_MS, latest) - this.clock.monotonic();
      if (ms <= 0) return;
      await this.clock.sleep(ms, { signal }).catch(() => {});
      await this.gate.idle({ signal }); // what answered a refusal may still be going out
    }
  }

  /** Calls `onListen`; rejects when it throws or rejects, which fails the loop. */
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
      if (!this.gate.exempts(request)) this.#lastAskedAt = this.clock.monotonic();
      return this.gate.handle(request, () => this.#handler(request, exchange as never), exchange);
    };
    try {
      return await runtime.serve(handle, { port, hostname });
    } catch (error) {
      throw new Error(
        `Service "${this.name}" cannot listen on ${hostname}:${port}: ${whyNot(error)}`,
        { cause: error },
      );
    }
  }
}

function whyNot(error: unknown): string {
  const { code, name, message } = Object(error);
  if (code === "EADDRINUSE" || name === "AddrInUse") {
    return "the port is taken; end the program that has it, or choose another";
  }
  if (code === "EACCES" || name === "PermissionDenied") {
    return "this needs a right that the program lacks; ports below 1024 often do";
  }
  return errorText(message ?? error);
}
