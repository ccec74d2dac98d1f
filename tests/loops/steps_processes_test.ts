import { readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { assertEquals, assertNotEquals } from "@std/assert";
import { openMailbox } from "../../src/engines/open_mailbox.ts";
import type { Mailbox } from "../../src/mailbox/mailbox.ts";
import { gate, openForTest, url as redisUrl } from "../engines/redis/_redis.ts";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { Child } from "../signals/_child.ts";

const STEPS = 20;
/** The steps whose worker is killed the first time. */
const KILLED: readonly number[] = [4, 8, 12, 16, 20];
/** What is left after the kills is too few for stops that would count. */
const MAX_DELIVERIES = KILLED.length + 3;
/** Only the lease of a killed worker has to expire. */
const SHORT_MS = 1_000;
const LONG_MS = 60_000;

type Signal = "SIGTERM" | "SIGKILL";

/** One job, a worker that does it, and a spare one that continues it. */
class Job implements AsyncDisposable {
  readonly #url: string;
  readonly #ledger = join(tmpdir(), `lastcall-steps-${crypto.randomUUID()}`);
  #worker!: Child;
  #spare: Child | undefined;

  private constructor(url: string) {
    this.#url = url;
  }

  static async start(url: string): Promise<Job> {
    const job = new Job(url);
    job.#worker = await job.#hire(LONG_MS);
    return job;
  }

  /** The numbers of the steps whose effects happened, in order. */
  get effects(): readonly number[] {
    return readFileSync(this.#ledger, "utf8").trim().split("\n").map(Number);
  }

  /** Waits until the worker runs this step. Returns its attempt. */
  async running(step: number): Promise<number> {
    const started = new RegExp(`^step ${step} started, attempt (\\d+), at (\\d+)$`, "m");
    const [, attempt] = await this.#worker.matches(started);
    return Number(attempt);
  }

  /** Ends the worker by a signal, while a spare one waits for the message. Returns its process id. */
  async end(signal: Signal, next: Signal | undefined): Promise<number> {
    const spare = this.#spare = await this.#hire(next === "SIGKILL" ? SHORT_MS : LONG_MS);
    const worker = this.#worker;
    worker.kill(signal);
    const { code, signal: by, stdout, stderr } = await worker.exit();
    assertEquals([code, by], signal === "SIGTERM" ? [0, null] : [null, signal], stdout + stderr);
    this.#worker = spare;
    return worker.pid;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker[Symbol.asyncDispose]();
    await this.#spare?.[Symbol.asyncDispose]();
    rmSync(this.#ledger, { force: true });
  }

  async #hire(visibilityTimeoutMs: number): Promise<Child> {
    const args = [this.#url, this.#ledger, `${visibilityTimeoutMs}`, `${MAX_DELIVERIES}`];
    const child = Child.start("../../loops/fixtures/stepping", { args });
    await child.line("ready");
    return child;
  }
}

/** The ends of workers, in order: a kill before the stop in some steps. */
const ENDS = Array.from({ length: STEPS }, (_, i) => i + 1).flatMap((step) => {
  const stop = { step, signal: "SIGTERM" } as const;
  return KILLED.includes(step) ? [{ step, signal: "SIGKILL" } as const, stop] : [stop];
});

/** Does the job under all signals, each of which is sent when its step runs. */
async function survive(mailbox: Mailbox<unknown>, url: string): Promise<void> {
  const { id } = await mailbox.send(STEPS);
  await using job = await Job.start(url);
  let kills = 0;
  let last: number | undefined;
  for (const [i, { step, signal }] of ENDS.entries()) {
    assertEquals(await job.running(step), kills + 1, "only a kill spends an attempt");
    const steps = ((await mailbox.get(id))?.steps ?? []).map(({ place }) => place);
    assertEquals(steps, Array.from({ length: step - 1 }, (_, done) => done + 1));
    const pid = await job.end(signal, ENDS[i + 1]?.signal);
    assertNotEquals(pid, last, "another worker has continued");
    last = pid;
    if (signal === "SIGKILL") kills++;
  }
  assertEquals(job.effects, ENDS.map(({ step }) => step), "only killed steps are repeated");
  assertEquals(await mailbox.approximateCount(), 0);
  assertEquals(await mailbox.deadLetters!.approximateCount(), 0);
}

const name =
  "a job of 20 steps survives 20 SIGTERMs and 5 SIGKILLs, and repeats only the steps that were killed";

describe("a long job on SQLite", () => {
  it(`${name}, on SQLite`, async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    await using mailbox = await openMailbox<unknown>(url);
    await survive(mailbox, url);
  });
});

describe("a long job on Redis", gate, () => {
  it(`${name}, on Redis`, async () => {
    await using it = await openForTest(redisUrl);
    await survive(it.mailbox, `${redisUrl}?queue=${it.name}`);
  });
});
