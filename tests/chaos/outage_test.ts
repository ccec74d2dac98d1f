import { after, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { assert, assertEquals, assertLess } from "@std/assert";
import { type DrainReport, LoopGroup, type Mailbox, MailboxLoop, silentLog } from "../../mod.ts";
import { type Outage, type Site, siteKinds } from "./_sites.ts";

const OUTAGE_MS = 5_000;
const RESUMES_WITHIN_MS = 2_000;
const OUTAGES: readonly Outage[] = ["killed", "frozen"];

/** Sends numbers until it is stopped, each until it is confirmed. */
class Sender implements AsyncDisposable {
  sent = 0;
  readonly #mailbox: Mailbox<number>;
  readonly #done: Promise<void>;
  #stopped = false;

  constructor(mailbox: Mailbox<number>) {
    this.#mailbox = mailbox;
    this.#done = this.#send();
  }

  async #send(): Promise<void> {
    while (!this.#stopped) {
      try {
        await this.#mailbox.send(this.sent, { id: `${this.sent}` });
        this.sent++;
      } catch {
        await sleep(20); // the server is away: it is sent again under the same id
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped = true;
    await this.#done;
  }
}

/** One loop that has work all the time and one that waits for some. */
class Group implements AsyncDisposable {
  readonly busy: Mailbox<number>;
  readonly #idle: Mailbox<number>;
  readonly done = new Set<number>();
  readonly group: LoopGroup;
  readonly run: Promise<DrainReport>;

  private constructor(busy: Mailbox<number>, idle: Mailbox<number>, timeoutMs: number, ms: number) {
    this.busy = busy;
    this.#idle = idle;
    const handler = async ({ body }: { readonly body: number }) => {
      await sleep(ms);
      this.done.add(body);
    };
    const options = { concurrency: 5, prefetch: 5, log: silentLog };
    const loops = [busy, idle].map((mailbox) => new MailboxLoop({ mailbox, handler, ...options }));
    this.group = new LoopGroup(loops, { shutdownTimeoutMs: timeoutMs, log: silentLog });
    this.run = this.group.run({ installSignals: false, visibilityTimeoutMs: 30_000 });
  }

  /** On queues of this name, with so much time for a stop, and for the work on one message. */
  static async start(
    site: Site,
    name: string,
    timeoutMs: number,
    workMs: number,
  ): Promise<Group> {
    const idle = await site.open(`${name}.idle`);
    return new Group(await site.open(name), idle, timeoutMs, workMs);
  }

  /** Of the busy loop, and of the idle one. */
  get ready(): readonly boolean[] {
    return this.group.health().loops.map(({ ready }) => ready);
  }

  async close(): Promise<void> {
    await Promise.all([this.busy.close(), this.#idle.close()]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.group.shutdown();
    await this.close();
  }
}

/** Resolves when the condition holds, with how long that took. */
async function until(condition: () => boolean, what: string, limitMs = 20_000): Promise<number> {
  const from = performance.now();
  while (!condition()) {
    assert(performance.now() - from < limitMs, `waited ${limitMs} ms for ${what}`);
    await sleep(5);
  }
  return performance.now() - from;
}

const sites = new Map(
  await Promise.all(
    siteKinds.filter(({ gate }) => !gate.skip).map(async ({ name, start }) => {
      return [name, await start()] as const;
    }),
  ),
);

// The servers are away for most of the time, so together.
describe("an engine", { concurrency: true }, () => {
  after(async () => {
    for (const site of sites.values()) await site[Symbol.asyncDispose]();
  });

  for (const { name, gate } of siteKinds) {
    describe(`${name} is away`, { ...gate, concurrency: false }, () => {
      const site = sites.get(name)!;

      for (const outage of OUTAGES) {
        it(`${outage} for 5 s: nothing is lost, work resumes at once, health tells the truth`, async (t) => {
          await using it = await Group.start(site, outage, 5_000, 5);
          const { busy, done } = it;
          const sender = new Sender(busy);
          await until(() => done.size > 50, "work");
          const turns: (readonly boolean[])[] = [it.ready];
          const watch = setInterval(() => turns.push(it.ready), 10);
          await site.begin(outage);
          const redMs = await until(() => it.ready.every((ready) => !ready), "red", OUTAGE_MS);
          await sleep(OUTAGE_MS - redMs);
          const before = done.size;
          turns.push(it.ready);
          await site.end(outage);
          const [workMs, greenMs] = await Promise.all([
            until(() => done.size > before, "work after the outage"),
            until(() => it.ready.every((ready) => ready), "green after the outage"),
          ]);
          await sender[Symbol.asyncDispose]();
          await until(() => done.size === sender.sent, "the rest of the work");
          clearInterval(watch);
          await it.group.shutdown();
          const ms = Math.round;
          t.diagnostic(
            `red after ${ms(redMs)} ms; then at work after ${ms(workMs)} ms, green after ` +
              `${ms(greenMs)} ms; ${sender.sent} messages`,
          );
          assertEquals(await busy.approximateCount(), 0, "what was done is done");
          assertLess(workMs, RESUMES_WITHIN_MS);
          assertLess(greenMs, RESUMES_WITHIN_MS);
          for (const loop of [0, 1]) {
            const colours = turns.map((turn) => turn[loop]).filter((it, i, all) =>
              it !== all[i - 1]
            );
            assertEquals(colours, [true, false, true], "once red and once green again");
          }
        });
      }

      for (const outage of OUTAGES) {
        it(`${outage} in a stop: it ends at its deadline, and so does the close`, async (t) => {
          const deadlineMs = 2_000;
          await using it = await Group.start(site, `stop.${outage}`, deadlineMs, 300);
          const { busy, done, group } = it;
          await busy.sendMany(Array.from({ length: 100 }, (_, i) => i));
          await until(() => done.size > 0 && group.health().loops[0]!.inFlight > 0, "work");
          await site.begin(outage);
          const from = performance.now();
          await group.shutdown();
          const stopMs = performance.now() - from;
          const report = await it.run;
          await it.close();
          const closeMs = performance.now() - from - stopMs;
          await site.end(outage);
          t.diagnostic(
            `stopped in ${Math.round(stopMs)} ms with ${report.exitCode}, ` +
              `closed in ${Math.round(closeMs)} ms`,
          );
          assert(report.balanced, String(report));
          assertLess(stopMs, deadlineMs + 1_000);
          assertLess(closeMs, 5_000);
          const later = await site.open(`stop.${outage}`);
          const left = await later.approximateCount();
          await later.close();
          assert(left > 0 && left + done.size >= 100, `${done.size} of 100 are done, ${left} left`);
        });
      }
    });
  }
});
