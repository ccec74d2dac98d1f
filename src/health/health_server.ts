import { errorText } from "../errors.ts";
import { onAbort } from "../_promises.ts";
import { type Clock, systemClock } from "../clock.ts";
import { missingPackages } from "../errors.ts";
import type { HttpServer, Runtime } from "../runtime.ts";
import type { Resource } from "../lifecycle/resources.ts";
import type { Broadcast } from "./_broadcast.ts";
import { healthRoutes, type HonoPackage } from "./_health_routes.ts";
import type { HealthOptions, Inspectable } from "./health_options.ts";

/** How long clients have to read the last event. */
const LAST_WORDS_MS = 1_000;

/**
 * Loads `hono`, after a check of the other packages that serving needs on this runtime. The error names
 * every missing package.
 */
export async function loadHono(what: string, runtime: Runtime): Promise<HonoPackage> {
  const missing = await runtime.missingServePackages?.() ?? [];
  let cause: unknown;
  try {
    // In `try`, and awaited one by one, so that bundlers accept a missing package.
    const { Hono } = await import("hono");
    const { bearerAuth } = await import("hono/bearer-auth");
    if (missing.length === 0) return { Hono, bearerAuth };
  } catch (error) {
    cause = error;
  }
  const names = [...(cause === undefined ? [] : ["hono"]), ...missing];
  throw new Error(missingPackages(what, names), { cause });
}

/** Serves the health of a group. It starts before the loops and stops after them. */
export class HealthServer implements Resource {
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

  /** Ends the event streams and closes the server, so that an open page does not delay the stop. */
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
