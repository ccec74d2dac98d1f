/**
 * 4. SQLite. Messages in a file survive the process, and so do the checkpoints that a handler saves.
 *
 *     node examples/04_sqlite.ts
 *
 * Press Ctrl+C in the middle and start it again: it continues with the next page. Or end it by `kill -9`: its
 * message is delivered again when its visibility timeout has passed.
 */

import { LoopGroup, MailboxLoop, RetryLaterError, systemClock } from "../mod.ts";
import { SqliteMailbox } from "../src/engines/sqlite/mod.ts";

interface Book {
  readonly title: string;
  readonly pages: number;
}

// A file contains any number of queues. It is created if it does not exist.
const books = await SqliteMailbox.open<Book>("books.db", { name: "to-print" });

const left = await books.approximateCount();
if (left === 0) {
  const titles = ["The Tide Tables", "A Field Guide to Moss", "Letters Never Sent"];
  await books.sendMany(titles.map((title) => ({ title, pages: 8 })));
}
console.log(left === 0 ? "three new books" : `${left} books are left from last time`);

const press = new MailboxLoop({
  name: "press",
  mailbox: books,
  handler: async (
    { body: { title, pages }, checkpoint: printed = 0 },
    { checkpoint, stopping },
  ) => {
    for (let page = Number(printed) + 1; page <= pages; page++) {
      await systemClock.sleep(150);
      console.log(`${title}, page ${page} of ${pages}`);
      await checkpoint(page); // the next delivery of this message continues after this page
      // Stop between two pages. This is not a failure, so it does not count as an attempt.
      if (stopping.aborted && page < pages) {
        throw new RetryLaterError("the press is stopping", { delayMs: 0 });
      }
    }
    if (await books.approximateCount() === 1) void group.shutdown(); // only this message is left
  },
});

const group = new LoopGroup([press], {
  shutdownTimeoutMs: 5_000,
  resources: [books],
});
console.log("Press Ctrl+C to stop the press.");
// A short visibility timeout helps after `kill -9`. The lease is extended while a book is printed.
const report = await group.run({ visibilityTimeoutMs: 10_000 });
console.log(`\n${report}`);
