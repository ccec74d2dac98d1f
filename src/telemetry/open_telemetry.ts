import type * as api from "@opentelemetry/api";

/** The OpenTelemetry API without an SDK: the application chooses where spans and metrics go. */
export type OpenTelemetry = typeof api;
export type { Context, Span } from "@opentelemetry/api";

interface Providers {
  readonly trace?: unknown;
  readonly metrics?: unknown;
}

/**
 * Where every copy of the OpenTelemetry API, and Deno's own exporter, registers its providers. Reading
 * this key is cheap, so a process without telemetry never loads the API.
 */
const PROVIDERS: unique symbol = Symbol.for("opentelemetry.js.api.1");

let loading: Promise<OpenTelemetry | undefined> | undefined;

/** Loads the OpenTelemetry API once. Resolves with undefined when the package is not installed. */
export function openTelemetry(): Promise<OpenTelemetry | undefined> {
  return loading ??= load();
}

/** Returns true while a tracer provider is registered. */
export function isTracing(): boolean {
  return providers()?.trace !== undefined;
}

/** Returns true while a meter provider is registered. */
export function isMetering(): boolean {
  return providers()?.metrics !== undefined;
}

/** Returns true while a tracer provider or a meter provider is registered. */
export function isObserved(): boolean {
  const registered = providers();
  return registered !== undefined &&
    (registered.trace !== undefined || registered.metrics !== undefined);
}

function providers(): Providers | undefined {
  return (globalThis as { readonly [PROVIDERS]?: Providers })[PROVIDERS];
}

async function load(): Promise<OpenTelemetry | undefined> {
  try {
    return await import("@opentelemetry/api");
  } catch {
    return undefined; // an optional peer dependency that is not installed
  }
}
