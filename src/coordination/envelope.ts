/**
 * The format of messages between agents.
 *
 * @module
 */

import { isObject } from "./_content.ts";

/** A message from one agent to another. */
export interface Envelope<P = unknown> {
  /** The version of the format. */
  readonly version: "1.0";
  /** Unique among all messages of all agents. */
  readonly msg_id: string;
  /** The id of the agent that sent it. */
  readonly from: string;
  /** The id of the agent that it is for. */
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
  /** The agent that is stopping; the first, where several stop together. */
  readonly shutting_down_agent: string;
  /** What the receiver should do. */
  readonly action: "pause_sending";
  /** Why the agent stops. */
  readonly reason: string;
  /** All agents that stop together, where there are several. */
  readonly shutting_down_agents?: readonly string[];
}

/** The notification that an agent is stopping. */
export type ShutdownNotification = Envelope<ShutdownPayload> & {
  readonly type: "shutdown_notification";
};

/** Creates message ids that are unique across processes. */
export class MessageIds {
  /** Random per instance; a counter follows it. */
  readonly #prefix = crypto.randomUUID().replaceAll("-", "").slice(0, 20);
  #last = 0;

  next(nowMs: number): string {
    return `msg-${Math.floor(nowMs / 1_000)}-${this.#prefix}-${++this.#last}`;
  }
}

/** Returns why `value` is not an envelope, or undefined when it is one. */
export function envelopeFault(value: unknown): string | undefined {
  if (!isObject(value)) return "it is no object";
  for (const part of ["msg_id", "from", "to", "type"]) {
    if (typeof value[part] !== "string" || value[part] === "") return `it has no \`${part}\``;
  }
  return undefined;
}
