import type { AgentRecord } from "./agent_state.ts";

/** The result of {@linkcode Bus.send}. */
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
 * What to do when the receiver is stopping. `tell` returns this to the sender, `hold` waits until the
 * receiver runs again or is gone, `redirect` sends to the receiver's successor, and `redirectTo` to a
 * named agent.
 */
export type WhenPaused = "tell" | "hold" | "redirect" | { readonly redirectTo: string };

/** Options of {@linkcode Bus.send}. */
export interface SendOptions {
  /** What to do when the receiver is stopping. @default {"tell"} */
  readonly whenPaused?: WhenPaused;
  /** Ends a hold: `send` then rejects with its reason. */
  readonly signal?: AbortSignal;
  /** Set on the envelope, for the receiver's handler. @default {false} */
  readonly requiresAck?: boolean;
}

/** How to send a message. */
export type SendDecision =
  | { readonly kind: "accept" }
  | { readonly kind: "refuse"; readonly outcome: "paused" | "gone" }
  | { readonly kind: "hold" }
  | { readonly kind: "redirect"; readonly to: string };

/** Decides by the status of the receiver. */
export function decideSend(record: AgentRecord, whenPaused: WhenPaused): SendDecision {
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
