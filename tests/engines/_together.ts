import { before, it } from "node:test";
import { deferred } from "../../src/_promises.ts";
import { mailboxCases, type MakeMailbox } from "../../src/testing/mod.ts";

/**
 * Hosts all cases, so many at a time, for engines whose times are long: the cases mostly wait. They start
 * with the first test of the suite, and each test tells how its case went.
 */
export function hostMailboxCasesTogether(make: MakeMailbox, together: number): void {
  const queue = mailboxCases.entries(); // one for all lanes
  const runs = mailboxCases.map(() => deferred<() => Promise<void>>());
  const lane = async () => {
    for (const [i, { run }] of queue) {
      const running = run(make);
      await running.catch(() => {}); // its own test tells
      runs[i]!.resolve(() => running);
    }
  };
  before(() => {
    for (let i = 0; i < together; i++) void lane();
  });
  for (const [i, { topic, name }] of mailboxCases.entries()) {
    it(`${topic}: ${name}`, async () => await (await runs[i]!.promise)());
  }
}
