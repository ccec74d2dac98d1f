import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import type { HealthOptions } from "../../src/health/mod.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import type { MailboxStats } from "../../src/mailbox/mailbox.ts";
import { Fixture } from "./_fixture.ts";

/** Returns the lines of the metrics of mailboxes. */
async function linesOf(app: ReturnType<Fixture["app"]>): Promise<readonly string[]> {
  const text = await (await app.request("/metrics")).text();
  return text.split("\n").filter((line) => line.startsWith("lastcall_mailbox_"));
}

/** Returns the lines of a mailbox on the memory engine. */
function expected(
  mailbox: string,
  counts: Partial<Record<"waiting" | "delayed" | "in_flight" | "dead", number>> = {},
): readonly string[] {
  const all = { waiting: 0, delayed: 0, in_flight: 0, dead: 0, ...counts };
  return Object.entries(all).map(([state, count]) => {
    return `lastcall_mailbox_messages{mailbox="${mailbox}",state="${state}"} ${count}`;
  });
}

const JOBS = [
  'lastcall_mailbox_oldest_waiting_seconds{mailbox="jobs"} 0',
  'lastcall_mailbox_paused{mailbox="jobs"} 0',
];

/** A mailbox whose engine answers when the test says so. */
function slowMailbox(name: string, options: ConstructorParameters<typeof InMemoryMailbox>[1]) {
  const mailbox = new InMemoryMailbox<string>(name, options);
  const answers: ((stats: MailboxStats) => void)[] = [];
  Object.defineProperty(mailbox, "stats", {
    value: () => new Promise<MailboxStats>((resolve) => answers.push(resolve)),
  });
  return { mailbox, answers };
}

describe("the metrics of mailboxes", () => {
  it("/metrics counts the messages of the mailboxes of all loops by state, without an option", async () => {
    const fixture = new Fixture();
    const { mailbox, clock } = fixture;
    await fixture.start();
    await mailbox.sendMany(Array.from({ length: 6 }, (_, i) => `${i}`));
    await mailbox.send("later", { delayMs: 60_000 });
    await clock.advance(2_500);
    assertEquals(await linesOf(fixture.app()), [
      ...expected("jobs", { waiting: 2, delayed: 1, in_flight: 4 }),
      'lastcall_mailbox_oldest_waiting_seconds{mailbox="jobs"} 2.5',
      'lastcall_mailbox_paused{mailbox="jobs"} 0',
    ]);
    await fixture.stop();
  });

  it("/metrics counts dead letters, and tells that a mailbox is paused", async () => {
    const fixture = new Fixture();
    fixture.fail(new Error("no stove"));
    await fixture.start();
    await fixture.mailbox.send("tea");
    await fixture.clock.advance(10);
    await fixture.mailbox.pause();
    assertEquals(await linesOf(fixture.app()), [
      ...expected("jobs", { dead: 1 }),
      'lastcall_mailbox_oldest_waiting_seconds{mailbox="jobs"} 0',
      'lastcall_mailbox_paused{mailbox="jobs"} 1',
    ]);
    await fixture.stop();
  });

  it("/metrics has the rate limit of a mailbox per second, while it has one", async () => {
    const fixture = new Fixture();
    const { mailbox, clock } = fixture;
    const app = fixture.app();
    const limits = async () => (await linesOf(app)).filter((line) => line.includes("rate_limit"));
    await mailbox.rateLimit({ max: 30, perMs: 60_000 });
    const line = 'lastcall_mailbox_rate_limit_per_second{mailbox="jobs"} 0.5';
    assertEquals(await limits(), [line]);
    await mailbox.rateLimit(false);
    await clock.advance(1_100);
    await limits(); // answers by the last answer, and asks again
    await clock.settle();
    assertEquals(await limits(), []);
  });

  it("/metrics has the mailboxes of the options and of the loops, each once", async () => {
    const fixture = new Fixture();
    const other = new InMemoryMailbox<string>("other", { clock: fixture.clock });
    const lines = await linesOf(fixture.app({ mailboxes: [fixture.mailbox, other] }));
    const messages = lines.filter((line) => line.startsWith("lastcall_mailbox_messages"));
    assertEquals(messages, [...expected("jobs"), ...expected("other")]);
  });

  it("/metrics leaves out what an engine cannot tell", async () => {
    const fixture = new Fixture();
    const { mailbox, answers } = slowMailbox("other", { clock: fixture.clock });
    const counter = { name: "counter", approximateCount: () => Promise.resolve(3) };
    const answer = linesOf(fixture.app({ mailboxes: [mailbox, counter] }));
    await fixture.clock.settle();
    answers[0]!({ waiting: 3 });
    assertEquals(await answer, [
      'lastcall_mailbox_messages{mailbox="other",state="waiting"} 3',
      ...expected("jobs"),
      ...JOBS,
    ]);
  });

  it("/metrics waits at most one second for an engine, and leaves it out until it answers", async () => {
    const fixture = new Fixture();
    const { clock } = fixture;
    const { mailbox, answers } = slowMailbox("other", { clock });
    const options: HealthOptions = { mailboxes: [mailbox], checkTimeoutMs: 60_000 };
    const app = fixture.app(options);
    const slow = { waiting: 1, delayed: 0, inFlight: 0 };
    const first = linesOf(app);
    await clock.advance(1_000);
    assertEquals(await first, [...expected("jobs"), ...JOBS]);
    answers[0]!(slow);
    await clock.settle();
    assertEquals(answers.length, 1, "a query that runs is not sent again");
    const second = await linesOf(app);
    assertEquals(second.filter((line) => line.includes("other")), [
      'lastcall_mailbox_messages{mailbox="other",state="waiting"} 1',
      'lastcall_mailbox_messages{mailbox="other",state="delayed"} 0',
      'lastcall_mailbox_messages{mailbox="other",state="in_flight"} 0',
    ]);
    await clock.advance(60_000);
    const third = linesOf(app);
    await clock.advance(1_000);
    assertEquals(await third, [...expected("jobs"), ...JOBS]);
  });

  it("/metrics leaves out an unreachable engine without a wait, and logs it once", async () => {
    const fixture = new Fixture();
    const { clock, mailbox } = fixture;
    const app = fixture.app();
    mailbox.loseConnection();
    for (let i = 0; i < 3; i++) {
      assertEquals(await linesOf(app), []);
      await clock.advance(1_000);
    }
    assertEquals(fixture.logged, ["status query failed"]);
    mailbox.restoreConnection();
    await linesOf(app);
    await clock.settle();
    assertEquals(await linesOf(app), [...expected("jobs"), ...JOBS]);
  });
});
