// `lastcall cron next`.

import { type Command, Option } from "commander";
import { missingPackages } from "../../src/errors.ts";
import type { Schedule } from "../../src/cron/schedule.ts";
import { asUsage, usageError } from "../_errors.ts";
import type { Io } from "../_io.ts";
import { examples, parseCount, parseInstant } from "../_options.ts";
import { printer } from "../_print.ts";

interface Flags {
  readonly tz: string;
  readonly count: number;
  readonly from?: Date;
}

/** A slot as `--json` prints it. */
interface ShownSlot {
  /** The instant in UTC. */
  readonly at: string;
  /** The date and time in the time zone, with its offset. */
  readonly local: string;
}

const MAX_COUNT = 1_000;

/** Adds `lastcall cron next`, which lists the next slots of a schedule. */
export function addCron(program: Command, io: Io): void {
  const cron = program.command("cron")
    .description("Look at the schedules of CronLoop. Needs the package croner.")
    .helpCommand(false)
    .addHelpText(
      "after",
      examples(["lastcall cron next '0 9 * * 1' --tz Europe/Berlin", "Mondays at nine"]),
    );
  cron.command("next")
    .description(
      "List the next slots of a cron schedule, with the rules of CronLoop for daylight saving.",
    )
    .argument("<schedule>", "cron pattern in quotes, as '0 9 * * 1'")
    .option("--tz <name>", "time zone of the schedule, as Europe/Berlin", "UTC")
    .addOption(
      new Option("-n, --count <count>", "how many slots to list")
        .argParser(parseCount(1, MAX_COUNT)).default(5),
    )
    .addOption(
      new Option("--from <time>", "list the slots after this time, as 2030-01-31T08:00Z")
        .argParser(parseInstant).default(undefined, "now"),
    )
    .addHelpText(
      "after",
      examples(
        ["lastcall cron next '0 9 * * 1' --tz Europe/Berlin", "Mondays at nine"],
        ["lastcall cron next '*/10 * * * * *' --count 3", "with seconds first"],
        ["lastcall cron next @daily --from 2030-01-31T08:00Z --json", "as JSON"],
      ),
    )
    .action(async (pattern: string, flags: Flags, command: Command) => {
      const schedule = await parse(pattern, flags.tz);
      const slots = slotsOf(schedule, flags.from ?? new Date(), flags.count);
      printer(io, command).list(
        slots,
        ["UTC", "LOCAL"],
        ({ at, local }) => [at, `${weekday(at, flags.tz)} ${local}`],
        "no slots",
      );
    });
}

/** Loads `croner` only here: the other commands do not need it. */
async function parse(pattern: string, timezone: string): Promise<Schedule> {
  let module: typeof import("../../src/cron/schedule.ts");
  try {
    module = await import("../../src/cron/schedule.ts");
  } catch (error) {
    throw usageError(missingPackages("lastcall cron", ["croner"]), { cause: error });
  }
  return asUsage(() => new module.Schedule(pattern, timezone));
}

function slotsOf(schedule: Schedule, from: Date, count: number): ShownSlot[] {
  const slots: ShownSlot[] = [];
  for (let at = schedule.next(from); at && slots.length < count; at = schedule.next(at)) {
    slots.push({
      at: at.toISOString().replace(".000Z", "Z"),
      local: localTime(at, schedule.timezone),
    });
  }
  return slots;
}

/** Formats a time in a zone: `2030-01-07T09:00:00+01:00`. */
function localTime(at: Date, timeZone: string): string {
  const format = new Intl.DateTimeFormat("en-US", {
    timeZone,
    hourCycle: "h23",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    timeZoneName: "longOffset",
  });
  const part = Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, value]));
  const offset = part["timeZoneName"]?.replace("GMT", "") || "+00:00";
  const date = `${part["year"]}-${part["month"]}-${part["day"]}`;
  return `${date}T${part["hour"]}:${part["minute"]}:${part["second"]}${offset}`;
}

function weekday(at: string, timeZone: string): string {
  return new Intl.DateTimeFormat("en-US", { timeZone, weekday: "short" }).format(new Date(at));
}
