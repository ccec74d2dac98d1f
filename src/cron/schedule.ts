import { Cron } from "croner";
import { show } from "../_checks.ts";

/**
 * The slots of a cron pattern in a time zone. A slot is an instant, in whole seconds. The package `croner`
 * decides which slots exist, also where daylight saving repeats or leaves out an hour.
 *
 * @example
 * ```ts
 * import { Schedule } from "@lastcall/lastcall/cron";
 *
 * const mondays = new Schedule("0 9 * * 1", "Europe/Berlin");
 * const slot = mondays.next(new Date("2030-01-01T00:00Z"));
 * console.assert(slot?.toISOString() === "2030-01-07T08:00:00.000Z");
 * ```
 */
export class Schedule {
  /** The pattern, with single spaces. */
  readonly pattern: string;
  /** The IANA name of the time zone. */
  readonly timezone: string;
  readonly #cron: Cron;

  /**
   * Checks the pattern and the time zone. A pattern has five fields, or six with seconds first, or seven with
   * years last; names such as `@daily` are allowed.
   *
   * @throws {TypeError} when the pattern or the time zone is invalid, or when the pattern never matches.
   */
  constructor(pattern: string, timezone: string = "UTC") {
    this.pattern = typeof pattern === "string" ? pattern.trim().replace(/\s+/g, " ") : pattern;
    this.timezone = checkTimezone(timezone);
    this.#cron = this.#parse();
    if (this.next(new Date(0)) === undefined) {
      throw new TypeError(`Invalid schedule ${show(pattern)}: no date matches it`);
    }
  }

  /** Returns the first slot after a time; undefined when there is none. */
  next(after: Date): Date | undefined {
    return this.#cron.nextRun(after) ?? undefined;
  }

  /** Returns the last slot at or before a time; undefined when there is none. */
  latest(until: Date): Date | undefined {
    // croner leaves out the slot of the given second, and ignores milliseconds.
    const nextSecond = new Date(Math.floor(until.getTime() / 1_000) * 1_000 + 1_000);
    return this.#cron.previousRuns(1, nextSecond)[0];
  }

  #parse(): Cron {
    const { pattern, timezone } = this;
    const hint = "expected a cron pattern such as `0 9 * * 1`";
    // croner would take a date, or an object, for a schedule with one slot.
    if (typeof pattern !== "string" || pattern.includes(":")) {
      throw new TypeError(`Invalid schedule: ${hint}, got ${show(pattern)}`);
    }
    try {
      // An offset needs no `Intl`, which takes 15 times as long.
      return new Cron(pattern, timezone === "UTC" ? { utcOffset: 0 } : { timezone });
    } catch (error) {
      const reason = error instanceof Error ? error.message.replace(/^CronPattern: /, "") : error;
      throw new TypeError(`Invalid schedule ${show(pattern)}: ${reason}; ${hint}`, {
        cause: error,
      });
    }
  }
}

/** Returns the name of a time zone that the runtime knows. */
function checkTimezone(timezone: string): string {
  if (timezone === "UTC") return timezone;
  try {
    if (typeof timezone === "string" && timezone !== "") {
      new Intl.DateTimeFormat("en", { timeZone: timezone });
      return timezone;
    }
  } catch {
    // The runtime does not know it.
  }
  throw new TypeError(
    `Invalid timezone: expected an IANA name such as "Europe/Berlin" or "UTC", got ${
      show(timezone)
    }`,
  );
}
