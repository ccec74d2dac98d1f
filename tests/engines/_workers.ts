// Worker processes of which one is replaced, as in a deploy.

import { assert, assertEquals, assertGreater } from "@std/assert";
import type { Mailbox } from "../../src/mailbox/mailbox.ts";
import { Child } from "../signals/_child.ts";
import { eventually } from "./_servers.ts";

/** Starts a worker on the mailbox at a URL, on the runtime that hosts the test. */
export async function hire(url: string): Promise<Child> {
  const worker = Child.start("../../engines/fixtures/worker", { args: [url] });
  await worker.line("ready");
  return worker;
}

/** Ends a worker, which has to end well, and tells what it has completed. */
export async function fire(worker: Child): Promise<number[]> {
  worker.kill("SIGTERM");
  const { code, stdout, stderr } = await worker.exit();
  assertEquals(code, 0, `${stdout}\n${stderr}`);
  return [...stdout.matchAll(/^done (\d+)$/gm)].map(([, job]) => Number(job));
}

/** Two workers, one of which is replaced in the middle: nothing is lost, and nothing is done twice. */
export async function replaceOneOfTwo(
  mailbox: Mailbox<unknown>,
  url: string,
  count: number,
): Promise<void> {
  const jobs = Array.from({ length: count }, (_, i) => i);
  const left = () => mailbox.approximateCount();
  await using first = await hire(url);
  await using second = await hire(url);
  await mailbox.sendMany(jobs);
  await eventually(async () => assert(await left() < count * 0.75, "a quarter is done"));
  const ledger = await fire(first);
  assertGreater(await left(), 0, "it was stopped in the middle");
  await using third = await hire(url);
  await eventually(async () => assertEquals(await left(), 0));
  ledger.push(...await fire(second), ...await fire(third));
  assertEquals(ledger.sort((a, b) => a - b), jobs);
  assertEquals(await mailbox.deadLetters!.approximateCount(), 0);
}
