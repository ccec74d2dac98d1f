import { onAbort } from "../_promises.ts";
import type { StopReason } from "./group_events.ts";
import type { GroupConfig } from "./group_options.ts";
import { processShare } from "./_process_share.ts";
import { ShutdownCoordinator } from "./shutdown_coordinator.ts";

/** Callbacks from the process to a run. */
export interface ProcessEvents {
  readonly onStop: (reason: StopReason) => void;
  readonly onForce: (reason: StopReason) => void;
  /** Resolves when the run is over; the coordinator waits for it. */
  readonly finished: Promise<void>;
}

/** The connection between one run and the signals of the process. */
export interface ProcessLink {
  /** Begins the stop of the whole process, unless it has begun. */
  announce(reason: StopReason): void;
  /** Waits for the other shutdown callbacks, and returns the names of those that did not end. */
  unfinished(timeoutMs: number): Promise<readonly string[]>;
  /** Removes all listeners. */
  disconnect(): void;
}

/** Connects a run to the signals of the process, including one that arrived before the run. */
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
  // The coordinator calls asynchronously: without this a loop would begin first.
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
