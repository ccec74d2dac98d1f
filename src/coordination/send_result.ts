import type { AgentRecord } from "./agent_state.ts";

/** What became of a message. */
export type SendResult =
  | {
    /** It is in the inbox of `to`. */
    readonly outcome: "accepted";
    readonly to: string;
    readonly messageId: string;
  }
  | {
    /**
     * Nothing was stored. `paused`: the receiver is stopping, or its record cannot be read. `gone`: it
     * has stopped, died, or was never there.
     */
    readonly outcome: "paused" | "gone";
    readonly to: string;
    /** Why. */
    readonly record: AgentRecord;
  };

/**
 * What to do about a receiver that is stopping: `tell` the sender, `hold` the message until the receiver
 * runs again or is gone, or redirect it, to a named agent or with `redirect` to the successor that the
 * receiver has named.
 */
export type WhenPaused = "tell" | "hold" | "redirect" | { readonly redirectTo: string };

/** Options of {@linkcode Bus.send}. */
export interface SendOptions {
  /** What becomes of a message for an agent that is stopping. @default {"tell"} */
  readonly whenPaused?: WhenPaused;
  /** Ends a hold; the call then rejects with its reason. */
  readonly signal?: AbortSignal;
  /** Set on the envelope, for the receiver's handler. @default {false} */
  readonly requiresAck?: boolean;
}

/** What is to be done with a message to somebody. */
export type Verdict =
  | { readonly kind: "accept" }
  | { readonly kind: "refuse"; readonly outcome: "paused" | "gone" }
  | { readonly kind: "hold" }
  | { readonly kind: "redirect"; readonly to: string };

/** Decides by what is known of the receiver. */
export function verdictOn(record: AgentRecord, whenPaused: WhenPaused): Verdict {
  const { status, metadata } = record;
  if (status === "running") return { kind: "accept" };
  const outcome = status === "shutting_down" || status === "corrupt" ? "paused" : "gone";
  if (typeof whenPaused === "object") return { kind: "redirect", to: whenPaused.redirectTo };
  if (whenPaused === "redirect" && typeof metadata?.successor === "string") {
    return { kind: "redirect", to: metadata.successor };
  }
  if (whenPaused === "hold" && outcome === "paused") return { kind: "hold" };
  return { kind: "refuse", outcome };
}
