import type { SignalName } from "../runtime.ts";

/** Why a stop began. */
export interface StopReason {
  /**
   * `signal` from outside, `trigger` by the program through the coordinator, `shutdown` by a call on
   * the group, `aborted` by the caller's AbortSignal, `failure` of a loop, or `finished`: every loop
   * had ended by itself.
   */
  readonly kind: "signal" | "trigger" | "shutdown" | "aborted" | "failure" | "finished";
  /** The same for people, as in `SIGTERM` or `loop "orders" failed`. */
  readonly text: string;
  /** The signal, where it was one. */
  readonly signal?: SignalName;
  /** True for a Ctrl+C by a person at the terminal: nobody needs to be routed away first. */
  readonly interactive?: boolean;
}
