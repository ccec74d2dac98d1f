/**
 * 4. SQLite. Messages in a file survive the process, and so do the steps that a handler has finished.
 *
 *     node examples/04_sqlite.ts
 *
 * Press Ctrl+C in the middle and start it again: it continues with the next page. Or end it by `kill -9`: the
 * next start receives its message about a second later.
 */

import { LoopGroup, MailboxLoop, openMailbox, systemClock } from "../mod.ts";

interface Book {
  readonly title: string;
  readonly pages: number;
}

// A file contains any number of queues. It is created if it does not exist.
const books = await openMailbox<Book>("sqlite:./books.db?queue=to-print");

const left = await books.approximateCount();
if (left === 0) {
  const titles = ["The Tide Tables", "A Field Guide to Moss", "Letters Never Sent"];
  await books.sendMany(titles.map((title) => ({ title, pages: 8 })));
}
console.log(left === 0 ? "three new books" : `${left} books are left from last time`);

const press = new MailboxLoop({
  name: "press",
  mailbox: books,
  handler: async (message, { step, stopping }) => {
    const { title, pages } = message.body;
    for (let page = 1; page <= pages; page++) {
      // A stop ends the work between two pages. A release does not count as an attempt.
      if (stopping.aborted) return await message.release();
      await step(`page ${page}`, async () => { // once per message, in all deliveries
        await systemClock.sleep(150);
        console.log(`${title}, page ${page} of ${pages}`);
      });
    }
  },
});

const group = new LoopGroup([press], { shutdownTimeoutMs: 5_000, resources: [books] });
console.log("Press Ctrl+C to stop the press.");
const report = await group.run({ untilEmpty: true });
console.log(`\n${report}`);
