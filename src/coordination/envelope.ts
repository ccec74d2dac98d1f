/**
 * The form that messages between agents have.
 *
 * @module
 */

import { isObject } from "./_content.ts";

/** A message from one agent to another. */
export interface Envelope<P = unknown> {
  /** That of the format. */
  readonly version: "1.0";
  /** Unique among all messages of all agents. */
  readonly msg_id: string;
  /** The id of the agent that sent it. */
  readonly from: string;
  /** The id of the agent that it is for. */
  readonly to: string;
  /** In seconds since the Unix epoch. */
  readonly timestamp: number;
  /** Counts what `from` has sent to `to`, from 1, within one life of the sender. */
  readonly sequence: number;
  /** What chooses the handler. */
  readonly type: string;
  /** What the handler of this type understands. */
  readonly payload: P;
  /** The sender asks to be answered; nobody here does it for the handler. */
  readonly requires_ack: boolean;
}

/** What peers of a stopping agent are told. */
export interface ShutdownPayload {
  /** The agent to send nothing to any more; the first, where several stop. */
  readonly shutting_down_agent: string;
  /** What the receiver is asked to do. */
  readonly action: "pause_sending";
  /** Why it stops, as whoever stopped it put it. */
  readonly reason: string;
  /** All that stop together, where there are several: they are told of by one notification. */
  readonly shutting_down_agents?: readonly string[];
}

/** The notification that an agent is stopping. */
export type ShutdownNotification = Envelope<ShutdownPayload> & {
  readonly type: "shutdown_notification";
};

/** Makes ids that no other message has, of this process or of another. */
export class MessageIds {
  /** Random once and counted from there: unique however many are made at once. */
  readonly #prefix = crypto.randomUUID().replaceAll("-", "").slice(0, 20);
  #last = 0;

  next(nowMs: number): string {
    return `msg-${Math.floor(nowMs / 1_000)}-${this.#prefix}-${++this.#last}`;
  }
}

/** Why something is no envelope; undefined when it is one. */
export function envelopeFault(value: unknown): string | undefined {
  if (!isObject(value)) return "it is no object";
  for (const part of ["msg_id", "from", "to", "type"]) {
    if (typeof value[part] !== "string" || value[part] === "") return `it has no \`${part}\``;
  }
  return undefined;
}
