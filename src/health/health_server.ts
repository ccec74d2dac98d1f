import { errorText } from "../errors.ts";
import { onAbort } from "../_promises.ts";
import { type Clock, systemClock } from "../clock.ts";
import { missingPackages } from "../errors.ts";
import type { HttpServer, Runtime } from "../runtime.ts";
import type { Support } from "../lifecycle/resources.ts";
import type { Broadcast } from "./_broadcast.ts";
import { healthRoutes, type HonoPackage } from "./_health_routes.ts";
import type { HealthOptions, Inspectable } from "./health_options.ts";

/** Whoever has not read the last event by then does not read. */
const LAST_WORDS_MS = 1_000;

/**
 * Loads `hono`, after a look at what else serving needs on this runtime. Rejects with an error that names
 * every package that is missing.
 */
export async function loadHono(what: string, runtime: Runtime): Promise<HonoPackage> {
  const missing = await runtime.missingServePackages?.() ?? [];
  let cause: unknown;
  try {
    // Within `try`, and awaited one by one: so bundlers accept that it is not installed.
    const { Hono } = await import("hono");
    const { bearerAuth } = await import("hono/bearer-auth");
    if (missing.length === 0) return { Hono, bearerAuth };
  } catch (error) {
    cause = error;
  }
  const names = [...(cause === undefined ? [] : ["hono"]), ...missing];
  throw new Error(missingPackages(what, names), { cause });
}

/** Serves the health of a group, from before its loops start until after they have stopped. */
export class HealthServer implements Support {
  readonly name = "health";
  readonly #runtime: Runtime;
  readonly #fetch: (request: Request) => Response | Promise<Response>;
  readonly #place: { readonly port: number; readonly hostname: string };
  readonly #events: Broadcast;
  readonly #clock: Clock;
  #server: HttpServer | undefined;

  constructor(
    hono: HonoPackage,
    group: Inspectable,
    runtime: Runtime,
    place: { readonly port: number; readonly hostname: string },
    options: HealthOptions,
  ) {
    const { app, events } = healthRoutes(hono, group, options, true);
    this.#fetch = (request) => app.fetch(request);
    this.#events = events;
    this.#clock = options.clock ?? systemClock;
    this.#runtime = runtime;
    this.#place = place;
  }

  async start(): Promise<void> {
    const { serve, name } = this.#runtime;
    if (serve === undefined) throw new Error(`The runtime "${name}" cannot serve HTTP`);
    const { port, hostname } = this.#place;
    try {
      this.#server = await serve(this.#fetch, this.#place);
    } catch (error) {
      throw new Error(`Nothing can listen at ${hostname}:${port}: ${errorText(error)}`, {
        cause: error,
      });
    }
  }

  /** A page that somebody left open must not hold the stop: its stream gets an end, and soon is cut off. */
  async stop({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    this.#events.close();
    const cutOff = new AbortController();
    const unlink = onAbort(signal, () => cutOff.abort());
    const cancel = this.#clock.schedule(LAST_WORDS_MS, () => cutOff.abort());
    try {
      await this.#server?.close({ signal: cutOff.signal });
    } finally {
      unlink();
      cancel();
      this.#server = undefined;
    }
  }
}
