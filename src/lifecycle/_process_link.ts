import { onAbort } from "../_promises.ts";
import type { StopReason } from "./group_events.ts";
import type { GroupConfig } from "./group_options.ts";
import { processShare } from "./_process_share.ts";
import { ShutdownCoordinator } from "./shutdown_coordinator.ts";

/** What a run wants to hear from the process. */
export interface ProcessEvents {
  readonly onStop: (reason: StopReason) => void;
  readonly onForce: (reason: StopReason) => void;
  /** When the run is over; the coordinator waits for it. */
  readonly finished: Promise<void>;
}

/** The tie between one run and the process's signals. */
export interface ProcessLink {
  /** Begins the stop of the whole process, if it has not begun. */
  announce(reason: StopReason): void;
  /** Waits for the shutdown callbacks of others; returns the names of those that did not end. */
  unfinished(timeoutMs: number): Promise<readonly string[]>;
  /** Leaves nothing behind. */
  disconnect(): void;
}

/** Ties a run to the signals of the process, including one that came before the run. */
export function linkToProcess(
  config: GroupConfig,
  events: ProcessEvents,
  endsProcess: boolean,
): ProcessLink {
  const { runtime, clock, log } = config;
  const { coordinator, release } = ShutdownCoordinator.hold({ runtime: runtime(), clock, log });
  const stopLoopGroup = (reason: StopReason) => {
    events.onStop(reason);
    return events.finished;
  };
  const { mainStops } = processShare();
  if (endsProcess) mainStops.add(stopLoopGroup);
  coordinator.register(stopLoopGroup);
  // The coordinator calls back in a moment; by then a loop would have begun.
  if (coordinator.reason !== undefined) events.onStop(coordinator.reason);
  const { forceSignal } = coordinator;
  const unlink = onAbort(forceSignal, () => events.onForce(forceSignal.reason));
  return {
    announce: (reason) => void coordinator.trigger(reason),
    unfinished: (timeoutMs) => coordinator.unfinished(timeoutMs, stopLoopGroup),
    disconnect() {
      unlink();
      coordinator.unregister(stopLoopGroup);
      mainStops.delete(stopLoopGroup);
      release();
    },
  };
}
