/**
 * How leases are extended from another thread, where a handler that blocks the event loop does not
 * matter.
 *
 * @module
 */

/**
 * Where another thread finds what it needs to extend the leases of a mailbox. Only for engines that
 * refuse stale receipts by themselves: the threads do not wait for one another.
 */
export interface LeaseKeepingPlan {
  /** The address of a {@linkcode LeaseKeepingModule}. */
  readonly module: string;
  /** What it is opened with. It is copied to the other thread. */
  readonly options: unknown;
}

/** What a module exports that extends leases on another thread. */
export interface LeaseKeepingModule {
  /** Called on the other thread, with the options of the plan. */
  openLeaseKeeping(options: unknown): Promise<LeaseKeeping>;
}

/** Extends leases by nothing but their receipts, over a connection of its own. */
export interface LeaseKeeping {
  /** Makes leases last until `visibilityMs` from now; tells for each whether it is still held. */
  extend(receipts: readonly string[], visibilityMs: number): Promise<readonly boolean[]>;
  /** Ends its connection. */
  close(): Promise<void>;
}

/**
 * The address of a module by its own account, `undefined` when it was made part of something else: to
 * load that on another thread would start it a second time.
 */
export function addressOf(url: string | undefined, name: string): string | undefined {
  return url !== undefined && new RegExp(`/${name}\\.[jt]s$`).test(url) ? url : undefined;
}
