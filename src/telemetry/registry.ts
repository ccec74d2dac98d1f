/**
 * Whether somebody wants to know. Tracers and meters are registered at one place of the process, the same
 * for all copies of the OpenTelemetry API and for Deno's own exporter. A look there costs next to nothing,
 * so that whoever has registered none pays for none, and the API is not even loaded.
 *
 * @module
 */

interface Registry {
  readonly trace?: unknown;
  readonly metrics?: unknown;
}

const PLACE: unique symbol = Symbol.for("opentelemetry.js.api.1");

function registry(): Registry | undefined {
  return (globalThis as { readonly [PLACE]?: Registry })[PLACE];
}

/** True while a tracer provider is registered. */
export function isTracing(): boolean {
  return registry()?.trace !== undefined;
}

/** True while a meter provider is registered. */
export function isMetering(): boolean {
  return registry()?.metrics !== undefined;
}

/** True while either is. */
export function isObserved(): boolean {
  const registered = registry();
  return registered !== undefined &&
    (registered.trace !== undefined || registered.metrics !== undefined);
}
