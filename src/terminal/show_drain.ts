import { type Clock, systemClock } from "../clock.ts";
import { knownRuntime, type Runtime } from "../runtime.ts";
import { LineView } from "./_line_view.ts";
import { LiveView } from "./_live_view.ts";
import type { DrainView, Watchable } from "./drain_view.ts";

/** Options of {@linkcode showDrain}. */
export interface DrainViewOptions {
  /** Whose terminal it is. @default {the one this program runs on} */
  readonly runtime?: Runtime;
  /** Where time comes from. @default {systemClock} */
  readonly clock?: Clock;
}

const NO_VIEW: DrainView = { end: () => false };

/**
 * Shows on standard error how a group stops. On a terminal its last lines tell the phase, the time that is
 * left and what is in flight for how long, while the program goes on printing above; elsewhere each change
 * is one line of JSON. `main()` does this by itself.
 *
 * @example
 * ```ts
 * import { LoopGroup, showDrain, StepLoop } from "@lastcall/lastcall";
 *
 * const group = new LoopGroup([new StepLoop("poller", ({ pause }) => pause(1_000))]);
 * const view = showDrain(group);
 * setTimeout(() => group.shutdown(), 50);
 * view.end(await group.run());
 * ```
 */
export function showDrain(group: Watchable, options: DrainViewOptions = {}): DrainView {
  const { runtime = knownRuntime(), clock = systemClock } = options;
  const terminal = runtime?.terminal;
  if (terminal === undefined) return NO_VIEW;
  if (!terminal.interactive) return new LineView(group, terminal, clock);
  const onExit = (listener: () => void) => runtime?.onExit?.(listener) ?? (() => {});
  return new LiveView(group, terminal, clock, onExit);
}
