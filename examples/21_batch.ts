/**
 * 21. Batches. One call of the handler for many messages, for work that is cheaper together: here one
 * `insert` of up to 100 rows. A message that cannot be stored fails alone.
 *
 *     node examples/21_batch.ts
 *
 * It ends by itself.
 */

import { BatchLoop, InMemoryMailbox, LoopGroup, silentLog, systemClock } from "../mod.ts";

interface Reading {
  readonly sensor: number;
  readonly degrees: number;
}

/** Stands for a database: a call takes as long for 100 rows as for one. The second call fails. */
const table: Reading[] = [];
let calls = 0;
async function insert(rows: readonly Reading[]): Promise<void> {
  await systemClock.sleep(5);
  if (++calls === 2) throw new Error("the database is restarting");
  table.push(...rows);
}

const readings = new InMemoryMailbox<Reading>("readings");
const all = Array.from({ length: 250 }, (_, sensor) => ({ sensor, degrees: sensor % 30 }));
await readings.sendMany(all);
await readings.send({ sensor: 250, degrees: NaN }, { maxDeliveries: 1 });

const writer = new BatchLoop<Reading>({
  name: "writer",
  mailbox: readings,
  maxMessages: 100,
  waitMs: 50, // the last batch is not full, and does not wait for longer
  backoff: { minMs: 20 },
  log: silentLog, // it would log the failures
  handler: async (messages, { fail }) => {
    const valid = messages.filter((message) => {
      if (!Number.isNaN(message.body.degrees)) return true;
      fail(message, new TypeError(`sensor ${message.body.sensor} is broken`));
      return false;
    });
    await insert(valid.map(({ body }) => body)); // if it throws, all messages of the batch are retried
    console.log(`${valid.length} of ${messages.length} stored`);
  },
});

// 250 rows, 100 retries, and one dead letter.
const { counts } = await new LoopGroup([writer]).run({ maxMessages: 351 });
console.log(`${table.length} rows by ${calls} calls, ${counts.nacked} retries`);
const [letter] = await readings.deadLetters.peek!(1);
console.log(`dead letter: ${letter?.body.error}`);
await readings.close();
