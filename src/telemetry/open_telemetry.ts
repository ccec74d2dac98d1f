import type * as api from "@opentelemetry/api";

/** The API, without any SDK: what is done with spans and metrics is the application's choice. */
export type OpenTelemetry = typeof api;
export type { Context, Span } from "@opentelemetry/api";

let loading: Promise<OpenTelemetry | undefined> | undefined;

/** Loads the API where it is installed. */
export function openTelemetry(): Promise<OpenTelemetry | undefined> {
  return loading ??= load();
}

async function load(): Promise<OpenTelemetry | undefined> {
  try {
    return await import("@opentelemetry/api");
  } catch {
    return undefined; // an optional peer: it is not installed, and nobody misses it
  }
}
