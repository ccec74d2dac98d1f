import type { DrainReport } from "../lifecycle/drain_report.ts";
import type { GroupEvents } from "../lifecycle/group_events.ts";
import type { HealthSnapshot } from "../lifecycle/health_snapshot.ts";
import type { Runnable } from "../lifecycle/runnable.ts";

/** What a view needs of a group; a `LoopGroup` has it. */
export interface Watchable {
  /** The loops, whose work in flight is shown. */
  readonly loops: readonly Runnable[];
  /** How the group is doing. */
  health(): HealthSnapshot;
  /** Tells of changes; returns the remover. */
  on<K extends keyof GroupEvents>(kind: K, listener: (event: GroupEvents[K]) => void): () => void;
}

/** What shows a stop. */
export interface DrainView {
  /**
   * Shows how it ended, where that is given, and leaves the terminal as it was. True where a person has
   * the whole report before them.
   */
  end(report?: DrainReport): boolean;
}
