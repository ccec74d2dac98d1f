// Twenty replicas over two years: both changes of the clock, outages, crashes and restarts.

import { test } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { Cron } from "croner";
import { nextTurn } from "../../src/clock.ts";
import { CancelledError } from "../../src/errors.ts";
import { type Random, seededRandom } from "../../src/random.ts";
import { seed } from "../_seed.ts";
import { type Replica, Site } from "./_cron.ts";
import { TickClock } from "./_tick_clock.ts";

const REPLICAS = 20;
const MINUTE = 60_000;
const DAY = 86_400_000;
const TIMEZONE = "Europe/Berlin";

interface Scenario {
  readonly schedule: string;
  readonly from: string;
  readonly to: string;
  /** How many slots there are by hand: croner is not asked. */
  readonly slots: number;
}

/** One place of the site: a process runs there, or the place is empty. */
class Place {
  readonly #site: Site;
  #running: { readonly replica: Replica; readonly run: Promise<void> } | undefined;

  constructor(site: Site) {
    this.#site = site;
  }

  get replica(): Replica | undefined {
    return this.#running?.replica;
  }

  start(): void {
    if (this.#running !== undefined) return;
    const replica = this.#site.replica();
    this.#running = { replica, run: replica.loop.run() };
  }

  /** Ends the process in the middle of what it does. */
  async crash(): Promise<void> {
    this.#running?.replica.hang();
    this.#running?.replica.loop.cancel(new CancelledError("forced", "the test"));
    await this.#end();
  }

  /** Ends the process gracefully, and cancels a call that hangs. */
  async stop(): Promise<void> {
    const { loop } = this.#running?.replica ?? {};
    void loop?.shutdown({ timeoutMs: Infinity, callerCancels: true });
    await nextTurn();
    loop?.cancel(new CancelledError("deadline", "the test"));
    await this.#end();
  }

  async #end(): Promise<void> {
    await this.#running?.run;
    this.#running = undefined;
  }
}

/** Does to one place what happens to processes and their connections. */
async function disturb(place: Place, chance: number): Promise<void> {
  if (chance < 0.03) await place.crash();
  else if (chance < 0.06) await place.stop();
  else if (chance < 0.09) place.replica?.disconnect();
  else if (chance < 0.11) place.replica?.disconnect(true);
  else if (chance < 0.13) place.replica?.hangBeforeRecord();
  else if (chance < 0.30) place.replica?.reconnect();
  else if (chance < 0.40) place.start();
}

async function simulate({ schedule, from, to }: Scenario, random: Random) {
  const start = Date.parse(from);
  const end = Date.parse(to);
  const clock = new TickClock(start - MINUTE);
  const site = new Site(clock, { schedule, timezone: TIMEZONE, catchUp: "all" });
  const places = Array.from({ length: REPLICAS }, () => new Place(site));
  const slots = new Cron(schedule, { timezone: TIMEZONE });
  const handled: string[] = [];
  const jump = async (time: number) => {
    await clock.jump(time);
    handled.push(...await site.handle());
  };
  for (const place of places) place.start();
  await jump(start - MINUTE / 2); // the first start is recorded
  let slot = slots.nextRun(new Date(start))!.getTime();
  for (let now = start; now < end;) {
    // The whole site is away for up to three days, once in a while.
    if (random.number() < 0.01) {
      for (const place of places) await place.crash();
      now = Math.min(end, now + Math.floor(random.number() * 3 * DAY));
      await jump(now);
      for (const place of places) place.start();
    }
    // The engine is away for all replicas.
    if (random.number() < 0.01) { for (const { replica } of places) replica?.disconnect(); }
    for (const place of places) await disturb(place, random.number());
    if (slot <= now) slot = slots.nextRun(new Date(now))!.getTime();
    now = Math.min(end, random.number() < 0.3 ? Math.ceil((now + slot) / 2) : slot);
    await jump(now);
  }
  // In the end everything works again, and all that was missed is sent with the next slot.
  for (const place of places) {
    await place.crash();
    place.start();
  }
  const last = slots.nextRun(new Date(end))!;
  await jump(last.getTime());
  const records = site.storage.queue("jobs.cron").count();
  for (const place of places) await place.stop();
  assertEquals(clock.pending, 0);
  return { handled, records, last };
}

const SCENARIOS: readonly Scenario[] = [
  // Two years of days; the time does not exist on two of them and occurs twice on two others.
  { schedule: "30 2 * * *", from: "2029-01-01T00:00Z", to: "2031-01-01T00:00Z", slots: 730 },
  // Two weeks around each of the four changes of the clock, with every hour of the world's time.
  { schedule: "0 * * * *", from: "2029-03-18T00:00Z", to: "2029-04-01T00:00Z", slots: 336 },
  { schedule: "0 * * * *", from: "2029-10-21T00:00Z", to: "2029-11-04T00:00Z", slots: 336 },
  { schedule: "0 * * * *", from: "2030-03-24T00:00Z", to: "2030-04-07T00:00Z", slots: 336 },
  { schedule: "0 * * * *", from: "2030-10-20T00:00Z", to: "2030-11-03T00:00Z", slots: 336 },
];

for (const [i, scenario] of SCENARIOS.entries()) {
  const { schedule, from, to, slots } = scenario;
  test(`20 replicas send each slot of "${schedule}" from ${from} to ${to} once`, async () => {
    const { handled, records, last } = await simulate(scenario, seededRandom(seed + i));
    const why = `LASTCALL_SEED=${seed}`;
    const expected: string[] = [];
    const cron = new Cron(schedule, { timezone: TIMEZONE });
    let slot = cron.nextRun(new Date(Date.parse(from) - MINUTE));
    for (; slot !== null && slot <= last; slot = cron.nextRun(slot)) {
      expected.push(slot.toISOString());
    }
    const once = new Set(handled);
    const missing = expected.filter((it) => !once.has(it));
    const repeated = handled.filter((it, i) => handled.indexOf(it) !== i);
    assertEquals({ missing, repeated }, { missing: [], repeated: [] }, why);
    assertEquals(once.size, expected.length, `slots that do not exist; ${why}`);
    assert(Math.abs(expected.length - slots) <= 2, `${expected.length} slots`);
    assertEquals(records, 1, why);
  });
}
