import { readdirSync } from "node:fs";
import { describe, it } from "node:test";
import { assert, assertEquals, assertGreater } from "@std/assert";
import { SqliteMailbox } from "../../../src/engines/sqlite/mod.ts";
import { Child } from "../../signals/_child.ts";
import { TempFolder } from "./_folder.ts";

const JOBS = 10_000;

/** What two workers do, seen from outside. */
class Site implements AsyncDisposable {
  readonly folder: TempFolder = new TempFolder();
  readonly doneJobs: number[] = [];
  readonly #workers: Child[] = [];
  readonly #visibilityTimeoutMs: number;
  jobs!: SqliteMailbox<number>;
  done!: SqliteMailbox<number>;

  private constructor(visibilityTimeoutMs: number) {
    this.#visibilityTimeoutMs = visibilityTimeoutMs;
  }

  static async open(visibilityTimeoutMs: number): Promise<Site> {
    const site = new Site(visibilityTimeoutMs);
    const path = site.folder.file();
    site.jobs = await SqliteMailbox.open<number>(path, { name: "jobs" });
    site.done = await SqliteMailbox.open<number>(path, { name: "done" });
    await site.jobs.sendMany(Array.from({ length: JOBS }, (_, i) => i));
    return site;
  }

  async hire(): Promise<Child> {
    const worker = start("worker", this.folder.file(), this.#visibilityTimeoutMs);
    this.#workers.push(worker);
    await worker.line("ready");
    return worker;
  }

  /** Waits until so many different jobs are done. */
  async until(count: number): Promise<void> {
    while (new Set(this.doneJobs).size < count) {
      const messages = await this.done.receive({ maxMessages: 1_000, waitTimeMs: 10_000 });
      assert(messages.length > 0, `after ${this.doneJobs.length} jobs nothing more is done`);
      await this.done.acknowledgeMany(messages);
      this.doneJobs.push(...messages.map(({ body }) => body));
    }
  }

  async assertInTheMiddle(): Promise<void> {
    assertGreater(await this.jobs.approximateCount(), JOBS / 10, "there is much left to do");
  }

  /** Receives the messages whose acknowledgement was lost: their jobs are done. */
  async takeBack(): Promise<void> {
    const done = new Set(this.doneJobs);
    while (await this.jobs.approximateCount() > 0) {
      const messages = await this.jobs.receive({ maxMessages: 100, waitTimeMs: 10_000 });
      assert(messages.length > 0, "what a dead process had comes back");
      for (const { body } of messages) assert(done.has(body), `${body} was not done`);
      await this.jobs.acknowledgeMany(messages);
    }
  }

  /** The jobs that are done, once each, in order. */
  get different(): readonly number[] {
    return [...new Set(this.doneJobs)].sort((a, b) => a - b);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const worker of this.#workers) await worker[Symbol.asyncDispose]();
    await this.jobs.close();
    await this.done.close();
    this.folder[Symbol.dispose]();
  }
}

function start(fixture: string, ...args: unknown[]): Child {
  return Child.start(`../../engines/sqlite/fixtures/${fixture}`, { args: args.map(String) });
}

async function fire(worker: Child): Promise<void> {
  worker.kill("SIGTERM");
  const { code, stdout, stderr } = await worker.exit();
  assertEquals(code, 0, `${stdout}\n${stderr}`);
}

const all = Array.from({ length: JOBS }, (_, i) => i);

describe("processes on one SQLite file", () => {
  it("processes on one file lose nothing when one of them is killed at work", async () => {
    await using site = await Site.open(2_000);
    const [victim, other] = [await site.hire(), await site.hire()];
    await site.until(JOBS / 4);
    await site.assertInTheMiddle();
    victim.kill("SIGKILL");
    assertEquals((await victim.exit()).signal, "SIGKILL");
    const replacement = await site.hire();
    await site.until(JOBS);
    await Promise.all([fire(other), fire(replacement)]);
    assertEquals(site.different, all);
    await site.takeBack();
  });

  it("processes on one file lose and repeat nothing when they are stopped at work", async () => {
    await using site = await Site.open(60_000);
    const [first, second] = [await site.hire(), await site.hire()];
    await site.until(JOBS / 4);
    await site.assertInTheMiddle();
    await fire(first);
    const third = await site.hire();
    await site.until(JOBS / 2);
    await site.assertInTheMiddle();
    await fire(second);
    const fourth = await site.hire();
    await site.until(JOBS);
    await Promise.all([fire(third), fire(fourth)]);
    assertEquals(await site.done.approximateCount(), 0);
    assertEquals(site.doneJobs.toSorted((a, b) => a - b), all);
    assertEquals(await site.jobs.approximateCount(), 0);
  });

  it("a process that holds a message hears that another process has cancelled it", async () => {
    using folder = new TempFolder();
    await using jobs = await SqliteMailbox.open<string>(folder.file(), { name: "jobs" });
    const { id } = await jobs.send("work");
    await using holder = start("holder", folder.file());
    await holder.line(`holding ${id}`);
    assertEquals(await jobs.cancel(id), true);
    await holder.line(`cancelled ${id}`);
    assertEquals((await holder.exit()).code, 0);
  });

  it("processes on one file wake one another", async () => {
    using folder = new TempFolder();
    {
      await using jobs = await SqliteMailbox.open<string>(folder.file(), { name: "jobs" });
      const received = jobs.receive({ waitTimeMs: 15_000 });
      await using sender = start("sender", folder.file());
      assertEquals((await received)[0]?.body, "from afar");
      assertEquals((await sender.exit()).code, 0);
    }
    assertEquals(readdirSync(folder.path), ["jobs.db"]);
  });
});
