// What people, providers and browsers write: schedules, arguments, queries and answers of models.

import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { parseOptions } from "../../chaos/options.ts";
import {
  parseCount,
  parseDuration,
  parseHeader,
  parseInstant,
  parseInterval,
  parseTime,
} from "../../cli/_options.ts";
import { parseBody } from "../../cli/commands/send.ts";
import { hashOf, routeOf, type View, VIEWS } from "../../page/route.ts";
import { Schedule } from "../../src/cron/schedule.ts";
import { SlotRecord } from "../../src/cron/_slot_record.ts";
import { LoopGroup } from "../../src/group/loop_group.ts";
import { healthApp } from "../../src/health/mod.ts";
import { silentLog } from "../../src/log.ts";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { errorIn, terminatingErrorOf } from "../../src/service/service_errors.ts";
import { FakeRuntime, VirtualClock } from "../../src/testing/mod.ts";
import { outcomeOf, syncOutcomeOf } from "./_decoding.ts";
import type { Target } from "./_fuzz.ts";
import { json, jsonText, mutated, sometimesLong, swapped, text } from "./_inputs.ts";

const field = fc.oneof(
  fc.constant("*"),
  fc.nat({ max: 59 }).map(String),
  fc.constantFrom("1-5", "*/15", "MON", "L", "?", "1,2", "15W", "5#2"),
);
const patterns = fc.oneof(
  fc.array(field, { minLength: 5, maxLength: 7 }).map((all) => all.join(" ")),
  fc.constantFrom("@daily", "@hourly", "0 9 * * 1"),
);

/** A pattern has slots in their order, or is refused. */
export const schedules: Target<{ readonly pattern: string; readonly timezone: string }> = {
  name: "schedule",
  inputs: fc.record({
    pattern: sometimesLong(mutated(patterns), "* * * * ", "0-"),
    timezone: mutated(fc.constantFrom("Europe/Berlin", "UTC", "America/St_Johns")),
  }),
  cost: 5,
  holds: ({ pattern, timezone }) => {
    const refusals = {
      names: ["TypeError"],
      text: /^Invalid (schedule|timezone)\b.*(expected|no date matches)/s,
    };
    const outcome = syncOutcomeOf(() => new Schedule(pattern, timezone), refusals);
    if ("error" in outcome) return;
    const at = new Date("2030-06-01T12:34:56Z");
    const next = outcome.value.next(at);
    const latest = outcome.value.latest(at);
    assert(next === undefined || next > at, `the next slot is at ${next?.toISOString()}`);
    assert(latest === undefined || latest <= at, `the latest slot is at ${latest?.toISOString()}`);
  },
};

/** A record of slots of another form is ignored. */
export const slotRecords: Target<readonly unknown[]> = {
  name: "slot_record",
  inputs: fc.array(
    swapped(
      fc.constant({
        name: "report",
        schedule: "0 9 * * 1",
        timezone: "UTC",
        at: 1_893_456_000_000,
      }),
    ),
    { maxLength: 3 },
  ),
  holds: async (bodies) => {
    await using queue = new InMemoryMailbox<never>("orders.cron", { log: silentLog });
    await queue.sendMany(bodies as never[]);
    const record = new SlotRecord(queue, "report", new Schedule("0 9 * * 1"));
    const at = await record.begin(1_893_000_000_000);
    assert(Number.isInteger(at) && !Number.isNaN(new Date(at).getTime()), `the slot ${at}`);
    await record.save(1_894_000_000_000);
    assert((await record.read())! >= 1_894_000_000_000);
  },
};

/** An argument of the command is a value of its type, or refused with what to write. */
export const cliArguments: Target<string> = {
  name: "cli_argument",
  inputs: sometimesLong(
    mutated(
      fc.constantFrom(
        "30s",
        "1.5h",
        "7d",
        "500",
        "0",
        "2030-01-31T08:00Z",
        "2030-02-28T23:59:59.5+05:30",
        "a=b",
        "__proto__=1",
      ),
    ),
    ...["1", "2030-01-31T08:00:00.", "a="],
  ),
  holds: (text) => {
    const refusals = { names: ["InvalidArgumentError", "CommanderError"], text: /^Write / };
    const check = <T>(parse: (text: string) => T, isValid: (value: T) => boolean) => {
      const outcome = syncOutcomeOf(() => parse(text), refusals);
      assert("error" in outcome || isValid(outcome.value), `${parse.name} takes ${text}`);
    };
    check(parseDuration, (it) => Number.isSafeInteger(it) && it >= 0);
    check(parseInterval, (it) => Number.isSafeInteger(it) && it > 0);
    check(parseCount(1), (it) => Number.isSafeInteger(it) && it >= 1);
    check(parseCount(0, 9), (it) => it >= 0 && it <= 9);
    check(parseTime, (it) => !Number.isNaN(it.getTime()));
    check(parseInstant, (it) => {
      // Without an offset the time is local. The same digits in UTC tell whether the date exists.
      const [, date = ""] = /^(\d{4}-\d\d-\d\d)T/.exec(text)!;
      return !Number.isNaN(it.getTime()) &&
        new Date(`${date}T00:00Z`).toISOString().startsWith(date);
    });
    check(
      parseHeader,
      (it) => Object.keys(it).length === 1 && Object.getPrototypeOf(it) === Object.prototype,
    );
    const bodies = { names: ["CliError"], text: /^Body 1 is not JSON: / };
    syncOutcomeOf(() => parseBody(text, "Body 1", "Quote it"), bodies);
  },
};

/** The options of a chaos run are numbers above 0, or refused. */
export const chaosOptions: Target<Readonly<Record<string, string>>> = {
  name: "chaos_options",
  inputs: fc.dictionary(
    fc.constantFrom(
      "messages",
      "seconds",
      "workers",
      "faults",
      "rate",
      "seed",
      "keys",
      "cancels",
      "poison",
      "limit",
      "engine",
    ),
    mutated(fc.constantFrom("1", "all", "term,kill", "0.5", "redis")),
  ),
  holds: async (given) => {
    const args = Object.entries(given).map(([name, value]) => `--${name}=${value}`);
    const refusals = { names: ["RangeError", "UnsupportedError"], text: /^Invalid --/ };
    const outcome = await outcomeOf(() => parseOptions(args), refusals);
    if ("error" in outcome) return;
    const { messages, workers, keys, seed, cancels } = outcome.value;
    for (const count of [messages, workers, keys, seed]) {
      assert(Number.isSafeInteger(count), `${args}`);
    }
    assert(cancels >= 0 && cancels <= 1, `cancels ${cancels}`);
  },
};

/** A route of the page survives its hash, and any hash has a route. */
export const routes: Target<
  { readonly hash: string; readonly mailbox: string; readonly filters: Record<string, string> }
> = {
  name: "page_route",
  inputs: fc.record({
    hash: sometimesLong(
      mutated(fc.constantFrom("#/messages/orders?state=delayed", "#/replicas", "#/overview")),
      "#/messages/",
    ),
    mailbox: text.map((it) => `x${it.replace(/\p{Cs}/gu, "")}`),
    filters: fc.dictionary(
      fc.stringMatching(/^\w{1,5}$/),
      text.map((it) => `x${it.replace(/\p{Cs}/gu, "")}`),
    ),
  }),
  holds: ({ hash, mailbox, filters }) => {
    assert(Object.hasOwn(VIEWS, routeOf(hash).view));
    const route = { view: "messages" as View, mailbox, filters };
    assertEquals(routeOf(hashOf(route)), route);
  },
};

/** The health app answers any query and any body with JSON, and with no status of its own failure. */
export const queries: Target<
  {
    readonly path: string;
    readonly query: readonly (readonly [string, string])[];
    readonly body: string;
  }
> = {
  name: "health_query",
  inputs: fc.record({
    path: fc.constantFrom(
      ...["/messages", "/messages/a", "/dead-letters", "/messages/cancel", "/messages/deliver-now"],
      "/dead-letters/delete",
      "/redrive",
    ),
    query: fc.array(
      fc.tuple(
        fc.constantFrom("mailbox", "skip", "limit", "state", "find", "reason", "__proto__"),
        fc.oneof(mutated(fc.constantFrom("orders", "10", "0", "waiting")), fc.constant("orders")),
      ),
      { maxLength: 4 },
    ),
    body: fc.oneof(
      mutated(fc.constant('{"ids":["a","b"]}')),
      jsonText,
      swapped(fc.constant({ ids: ["a"] })).map((it) => JSON.stringify(it)),
    ),
  }),
  cost: 2,
  holds: async ({ path, query, body }) => {
    const app = theApp ??= await makeApp();
    const parameters = [["mailbox", "orders"], ...query].map((pair) =>
      pair.map((it) => encodeURIComponent(it.replace(/\p{Cs}/gu, ""))).join("=")
    );
    const isPost = !/^\/(messages|dead-letters|messages\/a)$/.test(path);
    const headers = { authorization: `Bearer ${TOKEN}` };
    const init = isPost ? { method: "POST", headers, body } : { headers };
    const response = await app.request(`${path}?${parameters.join("&")}`, init);
    const answer = await response.json();
    assert(
      [200, 400, 404, 409].includes(response.status),
      `${response.status} ${JSON.stringify(answer)}`,
    );
    assert(response.ok || typeof answer.error === "string" && answer.error !== "");
  },
};

const TOKEN = "0123456789abcdef0123456789abcdef";
let theApp: ReturnType<typeof healthApp> | undefined;

async function makeApp(): Promise<ReturnType<typeof healthApp>> {
  const clock = new VirtualClock();
  const mailbox = new InMemoryMailbox<unknown>("orders", { clock, log: silentLog });
  await mailbox.sendMany([{ a: 1 }, "text", null]);
  const loop = new MailboxLoop<unknown>({ mailbox, clock, log: silentLog, handler() {} });
  const group = new LoopGroup([loop], { clock, runtime: new FakeRuntime(), log: silentLog });
  return healthApp(group, { clock, log: silentLog, token: TOKEN });
}

/** The body of a 503 is the error of a stopping service, or not. */
export const refusalBodies: Target<string> = {
  name: "service_refusal",
  inputs: fc.oneof(
    mutated(fc.constant('{"error":{"code":5006,"message":"stopping","started":true}}')),
    json.map((it) => JSON.stringify(it)),
    swapped(fc.constant({ error: { code: 5006, message: "m" } })).map((it) => JSON.stringify(it)),
  ),
  holds: (text) => {
    assert(typeof errorIn(text) === "object");
    const error = terminatingErrorOf(text);
    assert(error === undefined || typeof error.message === "string");
  },
};
