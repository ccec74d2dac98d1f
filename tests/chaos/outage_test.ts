import { after, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { assert, assertEquals, assertLess } from "@std/assert";
import { type ChaosEngine, loadSite, SITE_NAMES } from "../../chaos/sites.ts";
import {
  type DrainReport,
  LoopGroup,
  type Mailbox,
  MailboxLoop,
  openMailbox,
  silentLog,
} from "../../mod.ts";
import { ENGINES } from "../../src/engines/registry.ts";

const OUTAGE_MS = 5_000;
const RESUMES_WITHIN_MS = 2_000;
const OUTAGES = ["killed", "frozen"] as const;
type Outage = (typeof OUTAGES)[number];

/** Short, so that a frozen server is noticed before it is back; by default both are 2 to 5 s. */
const ENGINE_OPTIONS = { callTimeoutMs: 1_000, pollIntervalMs: 1_000, log: silentLog };

async function open(engine: ChaosEngine, name: string): Promise<Mailbox<number>> {
  return await openMailbox<number>(`${engine.url}?queue=${name}`, ENGINE_OPTIONS);
}

async function begin({ server }: ChaosEngine, outage: Outage): Promise<void> {
  if (outage === "killed") await server!.kill();
  else server!.freeze();
}

/** Resolves when the server answers again. */
async function end({ server }: ChaosEngine, outage: Outage): Promise<void> {
  if (outage === "killed") await server!.start();
  else server!.thaw();
}

/** Sends numbers until it is disposed. It repeats each send until the engine confirms it. */
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
        await sleep(20); // an outage: sends again with the same id
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped = true;
    await this.#done;
  }
}

/** A group with one busy and one idle loop. */
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

  /** Starts a group with this shutdown timeout, whose handlers take `workMs`. */
  static async start(
    engine: ChaosEngine,
    name: string,
    timeoutMs: number,
    workMs: number,
  ): Promise<Group> {
    const idle = await open(engine, `${name}.idle`);
    return new Group(await open(engine, name), idle, timeoutMs, workMs);
  }

  /** The readiness of the busy and of the idle loop. */
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

/** Resolves when the condition holds, to the milliseconds that this took. */
async function until(condition: () => boolean, what: string, limitMs = 20_000): Promise<number> {
  const from = performance.now();
  while (!condition()) {
    assert(performance.now() - from < limitMs, `waited ${limitMs} ms for ${what}`);
    await sleep(5);
  }
  return performance.now() - from;
}

const sites = await Promise.all(
  SITE_NAMES.map(async (scheme) => {
    const site = await loadSite(scheme);
    const { name } = ENGINES.find(({ schemes }) => schemes.includes(scheme))!;
    const skip = site.skip || (site.hasServer ? site.slow ?? false : "it has no server");
    return { name, skip, engine: skip === false ? await site.start() : undefined };
  }),
);

// All tests run at the same time, because they mostly wait.
describe("an outage of 5 s", { concurrency: true }, () => {
  after(async () => {
    for (const { engine } of sites) await engine?.[Symbol.asyncDispose]();
  });

  for (const { name, skip, engine: started } of sites) {
    describe(`of ${name}`, { skip, concurrency: false }, () => {
      const engine = started!;

      for (const outage of OUTAGES) {
        it(`loses no message when ${name} is ${outage}; work resumes and readiness is right`, async (t) => {
          await using it = await Group.start(engine, outage, 5_000, 5);
          const { busy, done } = it;
          const sender = new Sender(busy);
          await until(() => done.size > 50, "work");
          const changes: (readonly boolean[])[] = [it.ready];
          const watch = setInterval(() => changes.push(it.ready), 10);
          await begin(engine, outage);
          const unreadyMs = await until(
            () => it.ready.every((ready) => !ready),
            "both loops to be not ready",
            OUTAGE_MS,
          );
          await sleep(OUTAGE_MS - unreadyMs);
          const before = done.size;
          changes.push(it.ready);
          await end(engine, outage);
          const [workMs, readyMs] = await Promise.all([
            until(() => done.size > before, "work after the outage"),
            until(() => it.ready.every((ready) => ready), "both loops to be ready"),
          ]);
          await sender[Symbol.asyncDispose]();
          await until(() => done.size === sender.sent, "the rest of the work");
          clearInterval(watch);
          await it.group.shutdown();
          const ms = Math.round;
          t.diagnostic(
            `not ready after ${ms(unreadyMs)} ms; working again after ${
              ms(workMs)
            } ms, ready after ` +
              `${ms(readyMs)} ms; ${sender.sent} messages`,
          );
          assertEquals(await busy.approximateCount(), 0, "all messages are acknowledged");
          assertLess(workMs, RESUMES_WITHIN_MS);
          assertLess(readyMs, RESUMES_WITHIN_MS);
          for (const loop of [0, 1]) {
            const turns = changes.map((ready) => ready[loop])
              .filter((ready, at, all) => ready !== all[at - 1]);
            assertEquals(turns, [true, false, true], "not ready once, and ready once again");
          }
        });
      }

      for (const outage of OUTAGES) {
        it(`does not delay a stop or a close beyond its limit when ${name} is ${outage}`, async (t) => {
          const deadlineMs = 2_000;
          await using it = await Group.start(engine, `stop.${outage}`, deadlineMs, 300);
          const { busy, done, group } = it;
          await busy.sendMany(Array.from({ length: 100 }, (_, i) => i));
          await until(() => done.size > 0 && group.health().loops[0]!.inFlight > 0, "work");
          await begin(engine, outage);
          const from = performance.now();
          await group.shutdown();
          const stopMs = performance.now() - from;
          const report = await it.run;
          await it.close();
          const closeMs = performance.now() - from - stopMs;
          await end(engine, outage);
          t.diagnostic(
            `stopped in ${Math.round(stopMs)} ms with exit code ${report.exitCode}, ` +
              `closed in ${Math.round(closeMs)} ms`,
          );
          assert(report.balanced, String(report));
          assertLess(stopMs, deadlineMs + 1_000);
          assertLess(closeMs, 5_000);
          const later = await open(engine, `stop.${outage}`);
          const left = await later.approximateCount();
          await later.close();
          assert(left > 0 && left + done.size >= 100, `${done.size} of 100 done, ${left} left`);
        });
      }
    });
  }
});
