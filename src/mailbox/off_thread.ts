/**
 * How another thread extends the leases of an engine while a handler blocks the event loop. Only for engines that
 * refuse stale receipt handles, because the threads do not wait for each other.
 */
export interface OffThreadPlan {
  /** The name of an engine of this package, or the URL of an {@linkcode OffThreadModule}. */
  readonly engine: string;
  /** The options for opening it. They are copied to the other thread. */
  readonly options: unknown;
}

/** The module that another thread loads. */
export interface OffThreadModule {
  /** Called on the other thread, with the options of the plan. */
  openExtender(options: unknown): Promise<OffThreadExtender>;
}

/** Extends leases by their receipt handles, over a connection of its own. */
export interface OffThreadExtender {
  /** Extends leases to `visibilityMs` from now. Returns for each whether its handle was valid. */
  extend(receiptHandles: readonly string[], visibilityMs: number): Promise<readonly boolean[]>;
  /** Closes its connection. */
  close(): Promise<void>;
}
