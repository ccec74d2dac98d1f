/**
 * Sends messages by a cron schedule, one per slot, whatever the number of replicas. Needs `croner`.
 *
 * @example
 * ```ts
 * import { InMemoryMailbox } from "@lastcall/lastcall";
 * import { CronLoop } from "@lastcall/lastcall/cron";
 *
 * const mondays = new CronLoop({
 *   name: "weekly-report",
 *   schedule: "0 9 * * 1",
 *   timezone: "Europe/Berlin",
 *   mailbox: new InMemoryMailbox<string>("reports"),
 *   body: "weekly",
 * });
 * console.log(mondays.next);
 * ```
 *
 * @module
 */

export { CronLoop, type CronLoopOptions } from "./cron_loop.ts";
export { Schedule } from "./schedule.ts";
export type { CatchUp, CronSlot, CronStatus } from "./slot.ts";
