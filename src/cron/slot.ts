/**
 * What becomes of missed slots, that is, of slots that could not be sent within a minute of their time because
 * no replica ran, the machine was suspended, or the engine was away:
 *
 * - `none`: they are skipped.
 * - `last`: only the latest one is sent, unless a slot of the last minute follows it.
 * - `all`: all are sent, in order, but not more than the latest 10 000.
 */
export type CatchUp = "none" | "last" | "all";

/** One date and time of a schedule. */
export interface CronSlot {
  /** The name of the loop. */
  readonly name: string;
  /** The time of the slot, in whole seconds. */
  readonly at: Date;
  /** The id of its message, such as `cron:report:2030-01-07T08:00:00Z`. */
  readonly id: string;
}

/** The last and the next slot of a cron loop, in milliseconds since the Unix epoch. */
export interface CronStatus {
  /** The last slot whose message this process sent or found sent. */
  readonly last?: number;
  /** The next slot; missing when there is none. */
  readonly next?: number;
}

/** Returns the id of the message of a slot. */
export function slotId(name: string, at: number): string {
  return `cron:${name}:${isoTime(at)}`;
}

/** Formats a time in UTC. A slot has whole seconds. */
export function isoTime(at: number): string {
  return new Date(at).toISOString().replace(".000Z", "Z");
}
