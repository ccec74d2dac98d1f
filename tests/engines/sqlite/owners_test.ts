import { readdirSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { MailboxLoop } from "../../../mod.ts";
import { deferred } from "../../../src/_promises.ts";
import {
  nodeSqlite,
  SqliteMailbox,
  type SqliteMailboxOptions,
} from "../../../src/engines/sqlite/mod.ts";
import { openExtender } from "../../../src/engines/sqlite/sqlite_mailbox.ts";
import type { Clock } from "../../../src/clock.ts";
import { type Log, silentLog } from "../../../src/log.ts";
import { VirtualClock } from "../../../src/testing/mod.ts";
import { Child } from "../../signals/_child.ts";
import { eventually } from "../_servers.ts";
import { TempFolder } from "./_folder.ts";

/** A folder with a mailbox file, and processes that use it. */
class Site implements AsyncDisposable {
  readonly folder: TempFolder = new TempFolder();
  readonly warnings: string[] = [];
  readonly #opened: AsyncDisposable[] = [];
  readonly sharedFile: boolean;
  /** How often a mailbox of this process tried to lock the file of another process. */
  looks = 0;

  constructor(sharedFile = false) {
    this.sharedFile = sharedFile;
  }

  async open(name: string, options: SqliteMailboxOptions = {}): Promise<SqliteMailbox<string>> {
    const log: Log = { ...silentLog, warn: (message) => void this.warnings.push(message) };
    const mailbox = await SqliteMailbox.open<string>(this.folder.file(), {
      name,
      sharedFile: this.sharedFile,
      log,
      driver: (path) => {
        const [, token] = path.split("-owner-");
        if (token !== undefined && this.lockFiles.includes(token)) this.looks++;
        return nodeSqlite(path);
      },
      ...options,
    });
    this.#opened.push(mailbox);
    return mailbox;
  }

  /** Starts a process that holds a message of each queue. */
  async hold(then: "hold" | "close" | "unused" | "thread", ...names: string[]): Promise<Child> {
    const kind = this.sharedFile ? "shared" : "own";
    const child = Child.start("../../engines/sqlite/fixtures/owner", {
      args: [this.folder.file(), then, kind, ...names],
    });
    this.#opened.push(child);
    await child.line("holding").catch((error) => {
      console.error(error);
      throw error;
    });
    return child;
  }

  /** The tokens of the lock files, of this process and of others. */
  get lockFiles(): string[] {
    return readdirSync(this.folder.path).flatMap((name) => name.split("-owner-").slice(1));
  }

  /** Waits until this process has tried so often to lock the file of another one. */
  async looked(times: number): Promise<void> {
    const enough = this.looks + times;
    // deno-lint-ignore require-await -- `eventually` takes a function with a promise
    await eventually(async () => assert(this.looks >= enough, `${this.looks} looks`));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      for (const it of this.#opened.reverse()) await it[Symbol.asyncDispose]();
      this.folder[Symbol.dispose]();
    } catch (error) {
      console.error("the site could not be removed", error); // the reporter hides it behind a failed test
      throw error;
    }
  }
}

async function kill(child: Child): Promise<number> {
  child.kill("SIGKILL");
  await child.exit();
  return performance.now();
}

/** Receives until it is stopped. */
function receiveIn(mailbox: SqliteMailbox<string>): { stop(): Promise<void>; received: string[] } {
  const aborting = new AbortController();
  const received: string[] = [];
  const { signal } = aborting;
  const receiving = (async () => {
    while (!signal.aborted && !mailbox.closed) {
      const messages = await mailbox.receive({ waitTimeMs: 60_000, signal });
      received.push(...messages.map(({ body }) => body));
    }
  })();
  return { received, stop: () => (aborting.abort(), receiving) };
}

describe("processes that hold messages of a SQLite file", () => {
  for (const sharedFile of [false, true]) {
    const where = sharedFile ? "the database of a program" : "a file";
    it(`another process receives the messages of a killed process in ${where} at once`, async () => {
      await using site = new Site(sharedFile);
      const jobs = await site.open("jobs");
      assertEquals(jobs.capabilities.ownerDetection, true);
      await jobs.send("first", { key: "k" });
      await jobs.send("second", { key: "k" });
      const victim = await site.hold("hold", "jobs");
      const [, receiptHandle = ""] = await victim.matches(/^receipt (.*)$/m);
      const received = jobs.receive({ waitTimeMs: 30_000 });
      await site.looked(1);
      const killedAt = await kill(victim);
      const [message] = await received;
      const tookMs = performance.now() - killedAt;
      assert(tookMs < 5_000, `${tookMs} ms`);
      assertEquals([message?.body, message?.deliveryCount, message?.leaseExpiries], [
        "first",
        2,
        1,
      ]);
      assertEquals(site.warnings, ["worker died; its messages are delivered again"]);
      assertEquals((await jobs.stats()).waiting, 1, "the second of the key stays blocked");
      assertEquals(await jobs.receive(), []);

      const extender = await openExtender(
        { path: site.folder.file(), queue: "jobs", durability: "normal", sharedFile },
      );
      assertEquals(await extender.extend([receiptHandle], 60_000), [false], "it is stale");
      await extender.close();
      assertEquals(await message!.acknowledge(), undefined);
      assertEquals((await jobs.receive())[0]?.body, "second");
      assertEquals(site.lockFiles.length, 1, "that of this process");
    });
  }

  it("a process that is frozen keeps its messages, and can settle them", async () => {
    await using site = new Site();
    const jobs = await site.open("jobs");
    await jobs.send("work");
    const holder = await site.hold("hold", "jobs");
    const { received, stop } = receiveIn(jobs);
    holder.kill("SIGSTOP");
    await site.looked(3);
    holder.kill("SIGCONT");
    holder.kill("SIGTERM");
    await holder.line("acknowledged 1");
    assertEquals((await holder.exit()).code, 0);
    await stop();
    assertEquals([received, site.warnings], [[], []]);
    assertEquals(await jobs.approximateCount(), 0);
    // It was removed by the close. A look that was under way may have created it again for a moment.
    await eventually(() => Promise.resolve(assertEquals(site.lockFiles, [])));
  });

  it("a process that closes its mailbox is not taken for dead, and its leases stay", async () => {
    await using site = new Site();
    const jobs = await site.open("jobs");
    await jobs.sendMany(["closed", "held"]);
    await site.hold("close", "jobs");
    await site.hold("hold", "jobs");
    const { received, stop } = receiveIn(jobs);
    await site.looked(2);
    await stop();
    assertEquals([received, (await jobs.stats()).inFlight], [[], 2]);
    assertEquals(site.lockFiles.length, 1, "that of the process that holds a message");
  });

  it("mailboxes of a process share a lock, which the first close leaves", async () => {
    await using site = new Site();
    const jobs = await site.open("jobs");
    await jobs.send("work");
    const holder = await site.hold("unused", "jobs");
    assertEquals(site.lockFiles.length, 1);
    const { received, stop } = receiveIn(jobs);
    await site.looked(2);
    assertEquals(received, []);
    await kill(holder);
    await eventually(() => Promise.resolve(assertEquals(received, ["work"])));
    await stop();
  });

  it("a thread that looks for dead processes does not release the lock of its own process", async () => {
    await using site = new Site();
    const jobs = await site.open("jobs");
    await jobs.send("work");
    const holder = await site.hold("thread", "jobs");
    const { received, stop } = receiveIn(jobs);
    await site.looked(2);
    assertEquals(received, []);
    await kill(holder);
    await eventually(() => Promise.resolve(assertEquals(received, ["work"])));
    await stop();
  });

  it("the messages of a killed process in all queues of the file are received", async () => {
    await using site = new Site();
    const [jobs, mails] = [await site.open("jobs"), await site.open("mails")];
    await jobs.send("job");
    await mails.send("mail");
    const victim = await site.hold("hold", "jobs", "mails");
    const receiving = [jobs, mails].map((it) => it.receive({ waitTimeMs: 30_000 }));
    await site.looked(1);
    await kill(victim);
    const [job, mail] = await Promise.all(receiving);
    assertEquals([job![0]?.body, mail![0]?.body], ["job", "mail"]);
    assertEquals(site.warnings.length, 1, "by one of the two");
  });

  it("a busy worker finds the messages of a killed process when it has a free slot", async () => {
    await using site = new Site();
    const jobs = await site.open("jobs");
    await jobs.send("lost");
    const victim = await site.hold("hold", "jobs");
    await jobs.sendMany(["slow", "next"]);
    const freed = deferred<void>();
    const started = deferred<void>();
    const handled: string[] = [];
    const loop = new MailboxLoop<string>({
      mailbox: jobs,
      concurrency: 1,
      prefetch: 0,
      handler: async ({ body }) => {
        started.resolve();
        if (body === "slow") await freed.promise;
        handled.push(body);
      },
    });
    const running = loop.run();
    await started.promise;
    await kill(victim);
    freed.resolve();
    await eventually(() => Promise.resolve(assertEquals(handled.length, 3)));
    assertEquals(handled.toSorted(), ["lost", "next", "slow"]);
    await loop.shutdown();
    await running;
  });

  it("a look that finds a killed process wakes the receives of this process", async () => {
    await using site = new Site();
    const clock = new VirtualClock(Date.now()); // it stands still
    const jobs = await site.open("jobs", { clock });
    await jobs.send("work");
    await kill(await site.hold("hold", "jobs"));
    const [message] = await jobs.receive({ waitTimeMs: 60_000 });
    assertEquals(message?.body, "work");
  });

  it("a process that finds no message locks no file", async () => {
    await using site = new Site();
    const stopped = new VirtualClock(Date.now());
    let passedMs = 0;
    let readings = 0;
    // Time passes with every reading, by steps of varying length: a look falls due at any point of a receive.
    const clock: Clock = {
      now: () => stopped.now(),
      monotonic: () => stopped.monotonic() + (passedMs += readings++ * 0.618 % 1.5),
      sleep: (ms, options) => stopped.sleep(ms, options),
      schedule: (ms, task) => stopped.schedule(ms, task),
    };
    const jobs = await site.open("jobs", { clock });
    await jobs.send("work");
    await site.hold("hold", "jobs");
    for (let i = 0; i < 10_000; i++) assertEquals(await jobs.receive(), []);
    assert(passedMs > 10_000, "many looks were due");
    assertEquals(site.lockFiles.length, 1, "that of the process that holds the message");
  });

  it("a waiting process looks only while another process holds a message", async () => {
    await using site = new Site();
    const clock = new VirtualClock(Date.now());
    const jobs = await site.open("jobs", { clock });
    await site.hold("hold"); // registered, without a message
    await jobs.send("later", { delayMs: 3_600_000 });
    const delayed = receiveIn(jobs);
    for (let second = 0; second < 20; second++) await clock.advance(1_000);
    assertEquals(site.looks, 1, "the first receive looks once");
    await delayed.stop();

    await jobs.send("work");
    const holder = await site.hold("hold", "jobs");
    const waiting = receiveIn(jobs);
    const before = site.looks;
    await eventually(async () => {
      await clock.advance(1_000);
      assert(site.looks > before + 4, "two processes, again and again");
    });
    await kill(holder);
    await eventually(async () => {
      await clock.advance(1_000);
      assertEquals(waiting.received, ["work"]);
    });
    await waiting.stop();
  });

  it("lock files and owners that a crash of all processes left are removed", async () => {
    await using site = new Site();
    const jobs = await site.open("jobs");
    await jobs.sendMany(["a", "b", "c"]);
    const victims = [await site.hold("hold", "jobs"), await site.hold("hold", "jobs")];
    await jobs.close();
    for (const victim of victims) await kill(victim);
    // As after a crash between the lock and the row.
    writeFileSync(`${site.folder.file()}-owner-0123abcd`, "");
    writeFileSync(`${site.folder.file()}-owner-of-another-kind`, "");
    // The second process may have looked at the first one after its end, and removed its file.
    assert(site.lockFiles.length >= 3, `${site.lockFiles}`);
    const again = await site.open("jobs");
    const { received, stop } = receiveIn(again);
    await eventually(() => Promise.resolve(assertEquals(received.toSorted(), ["a", "b", "c"])));
    await stop();
    await again.close();
    assertEquals(site.lockFiles, ["of-another-kind"]);
  });

  it("where no lock file can be created, one warning says so and leases expire by time", async () => {
    await using site = new Site();
    const driver = (path: string) => {
      if (path.includes("-owner-")) throw new Error("unable to open database file");
      return nodeSqlite(path);
    };
    const clock = new VirtualClock();
    const jobs = await site.open("jobs", { driver, clock });
    const sibling = await site.open("jobs", { driver, clock });
    await jobs.sendMany(["a", "b"]);
    const [first] = await jobs.receive({ visibilityTimeoutMs: 1_000 });
    const [second] = await sibling.receive({ visibilityTimeoutMs: 1_000 });
    assertEquals([first?.body, second?.body], ["a", "b"]);
    assertEquals(jobs.capabilities.ownerDetection, false);
    assertEquals(jobs.capabilities, sibling.capabilities);
    assertEquals(site.warnings.length, 1);
    assertMatch(site.warnings[0]!, /dead workers are not detected/);
    await clock.advance(1_000);
    const again = await jobs.receive({ maxMessages: 2 });
    assertEquals(again.map(({ leaseExpiries }) => leaseExpiries), [1, 1]);
  });
});
