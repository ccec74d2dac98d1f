/**
 * The messages between members, and the results of sending them. The field names are those of the scripts
 * that use the same format.
 *
 * @module
 */

import { type Random, systemRandom } from "../random.ts";
import { isObject } from "./board_store.ts";
import type { MemberRecord } from "./member_state.ts";

/** A message from one member to another. */
export interface BusMessage<P = unknown> {
  /** The version of the format. */
  readonly version: "1.0";
  /** Unique among all messages of all members. */
  readonly msg_id: string;
  /** The id of the sender. */
  readonly from: string;
  /** The id of the receiver. */
  readonly to: string;
  /** In seconds since the Unix epoch. */
  readonly timestamp: number;
  /** The number of the message from `from` to `to`, from 1, restarting with the sender. */
  readonly sequence: number;
  /** The message type, which selects the handler. */
  readonly type: string;
  /** The data for the handler. */
  readonly payload: P;
  /** Whether the sender expects an answer. The handler has to send it. */
  readonly requires_ack: boolean;
}

/** The payload of a {@linkcode ShutdownNotification}. */
export interface ShutdownPayload {
  /** The member that is stopping; the first, where several stop together. */
  readonly shutting_down_agent: string;
  /** What the receiver should do. */
  readonly action: "pause_sending";
  /** Why the member stops. */
  readonly reason: string;
  /** All members that stop together, where there are several. */
  readonly shutting_down_agents?: readonly string[];
}

/** The notification that a member is stopping. */
export type ShutdownNotification = BusMessage<ShutdownPayload> & {
  readonly type: "shutdown_notification";
};

/** The result of {@linkcode Bus.send}. */
export type SendResult =
  | {
    /** The message is in the inbox of `to`. */
    readonly outcome: "accepted";
    readonly to: string;
    readonly messageId: string;
  }
  | {
    /**
     * Nothing was stored. `paused`: the receiver is stopping, or its record cannot be read. `gone`: it
     * has stopped, died, or never existed.
     */
    readonly outcome: "paused" | "gone";
    readonly to: string;
    /** The record of the receiver. */
    readonly record: MemberRecord;
  };

/**
 * What to do when the receiver is stopping. `tell` returns the outcome to the sender, `hold` waits until the
 * receiver runs again or is gone, `redirect` sends to the receiver's successor, and `redirectTo` to a
 * named member.
 */
export type WhenPaused = "tell" | "hold" | "redirect" | { readonly redirectTo: string };

/** Options of {@linkcode Bus.send}. */
export interface SendOptions {
  /** What to do when the receiver is stopping. @default {"tell"} */
  readonly whenPaused?: WhenPaused;
  /** Ends a hold: `send` then rejects with its reason. */
  readonly signal?: AbortSignal;
  /** Set on the message, for the receiver's handler. @default {false} */
  readonly requiresAck?: boolean;
}

/** Returns a function that creates message ids, unique across processes. */
export function messageIds(random: Random = systemRandom): (nowMs: number) => string {
  const prefix = random.id().replaceAll("-", "").slice(0, 20);
  let last = 0;
  return (nowMs) => `msg-${Math.floor(nowMs / 1_000)}-${prefix}-${++last}`;
}

/** Returns why `value` is not a message, or undefined when it is one. */
export function messageFault(value: unknown): string | undefined {
  if (!isObject(value)) return "it is not an object";
  for (const part of ["msg_id", "from", "to", "type"]) {
    if (typeof value[part] !== "string" || value[part] === "") return `it has no \`${part}\``;
  }
  return undefined;
}
