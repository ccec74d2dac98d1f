/**
 * What the loops stand on: a database, a health server, a metrics exporter. A group starts its support
 * in order before the loops and stops it in reverse order after them, within the same deadline.
 */
export interface Support {
  /** Named in the report when it fails or hangs. */
  readonly name: string;
  /** Makes it ready for the loops. `signal` aborts when a stop begins meanwhile. */
  start?(context: { readonly signal: AbortSignal }): unknown;
  /** Releases it. `signal` aborts when the time is up. */
  stop(context: { readonly signal: AbortSignal }): unknown;
}
