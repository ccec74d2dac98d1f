/** The stages of a run, in their order; a stop may skip some. */
export type Phase = "starting" | "running" | "unready" | "draining" | "cancelling" | "stopped";

/** A group entered a phase. */
export interface PhaseEvent {
  /** The one it is in from now on. */
  readonly phase: Phase;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  /** Why, for people. */
  readonly reason: string;
}
