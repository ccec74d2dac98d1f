import { onAbort } from "../_promises.ts";
import { systemClock } from "../clock.ts";
import { errorText, missingPackages } from "../errors.ts";
import type { HttpServer, RequestHandler, Runtime, ServeOptions } from "../runtime.ts";
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

/**
 * Serves the health of a group on `address`. Resolves with a function that ends the event streams and closes
 * the server, so that an open page does not delay a stop.
 */
export async function serveHealth(
  hono: HonoPackage,
  group: Inspectable,
  runtime: Runtime,
  address: { readonly port: number; readonly hostname: string },
  options: HealthOptions,
): Promise<(context: { readonly signal: AbortSignal }) => Promise<void>> {
  const { app, answer, close } = healthRoutes(hono, group, options, true);
  const server = await listen(runtime, { ...address, answer }, (request) => app.fetch(request));
  const { clock = systemClock } = options;
  return async ({ signal }) => {
    close();
    const cutOff = new AbortController();
    const unlink = onAbort(signal, () => cutOff.abort());
    const cancel = clock.schedule(LAST_EVENT_MS, () => cutOff.abort());
    try {
      await server.close({ signal: cutOff.signal });
    } finally {
      unlink();
      cancel();
    }
  };
}

async function listen(
  { name, serve }: Runtime,
  options: ServeOptions,
  handler: RequestHandler,
): Promise<HttpServer> {
  if (serve === undefined) {
    throw new Error(
      `Cannot serve the health of the group: the runtime "${name}" cannot serve HTTP. Remove healthPort.`,
    );
  }
  try {
    return await serve(handler, options);
  } catch (error) {
    const { hostname, port } = options;
    const text = `Cannot listen on ${hostname}:${port}: ${errorText(error)}. Check healthPort.`;
    throw new Error(text, { cause: error });
  }
}
