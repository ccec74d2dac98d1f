import { onAbort } from "../_promises.ts";
import { type Clock, systemClock } from "../clock.ts";
import { errorText, missingPackages } from "../errors.ts";
import type { HttpServer, Runtime } from "../runtime.ts";
import type { Resource } from "../lifecycle/resources.ts";
import type { Broadcast } from "./_broadcast.ts";
import { healthRoutes, type HonoPackage } from "./_routes.ts";
import type { HealthOptions, Inspectable } from "./health_options.ts";

/** How long clients have to read the last event. */
const LAST_EVENT_MS = 1_000;

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
  readonly #address: { readonly port: number; readonly hostname: string };
  readonly #events: Broadcast;
  readonly #clock: Clock;
  #server: HttpServer | undefined;

  constructor(
    hono: HonoPackage,
    group: Inspectable,
    runtime: Runtime,
    address: { readonly port: number; readonly hostname: string },
    options: HealthOptions,
  ) {
    const { app, events } = healthRoutes(hono, group, options, true);
    this.#fetch = (request) => app.fetch(request);
    this.#events = events;
    this.#clock = options.clock ?? systemClock;
    this.#runtime = runtime;
    this.#address = address;
  }

  async start(): Promise<void> {
    const { serve, name } = this.#runtime;
    if (serve === undefined) {
      throw new Error(
        `Cannot serve the health of the group: the runtime "${name}" cannot serve HTTP. Remove healthPort.`,
      );
    }
    const { port, hostname } = this.#address;
    try {
      this.#server = await serve(this.#fetch, this.#address);
    } catch (error) {
      const text = `Cannot listen on ${hostname}:${port}: ${errorText(error)}. Check healthPort.`;
      throw new Error(text, { cause: error });
    }
  }

  /** Ends the event streams and closes the server, so that an open page does not delay the stop. */
  async stop({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    this.#events.close();
    const cutOff = new AbortController();
    const unlink = onAbort(signal, () => cutOff.abort());
    const cancel = this.#clock.schedule(LAST_EVENT_MS, () => cutOff.abort());
    try {
      await this.#server?.close({ signal: cutOff.signal });
    } finally {
      unlink();
      cancel();
      this.#server = undefined;
    }
  }
}
