import type { Context, MiddlewareHandler } from "hono";
import { isTerminatingError } from "../errors.ts";
import type { ServiceGate } from "./service_gate.ts";

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
