/**
 * 18. Options of messages: keys, priorities, expiry and deduplication. docs/messages.md has all of them.
 *
 *     node examples/18_messages.ts
 *
 * It ends by itself. A bank handles transfers: those of one account one at a time and in order, those of
 * different accounts at the same time.
 */

import { InMemoryMailbox, LoopGroup, MailboxLoop, silentLog, systemClock } from "../mod.ts";

interface Transfer {
  readonly account: string;
  readonly number: number;
}

const transfers = new InMemoryMailbox<Transfer>("transfers");

// Keys: the transfers of an account are handled in order, although six messages are handled at a time.
const all = ["ada", "grace", "edsger"].flatMap((account) =>
  [1, 2, 3].map((number) => ({ account, number }))
);
await transfers.sendMany(all, ({ account }) => ({ key: account }));

// Priority: it is sent last and received first.
await transfers.send({ account: "police", number: 1 }, { priority: 9 });

// Deduplication: a sender that is not sure whether its first send arrived sends again.
const once = { id: "transfer-7", dedupMs: 3_600_000 };
const first = await transfers.send({ account: "barbara", number: 1 }, once);
const second = await transfers.send({ account: "barbara", number: 1 }, once);
console.log(`transfer-7: stored ${first.stored}, then ${second.stored}`);

// Expiry: no worker receives it in time, so it becomes a dead letter.
await transfers.send({ account: "donald", number: 1 }, { expiresInMs: 1 });
await systemClock.sleep(5);

const bank = new MailboxLoop({
  name: "bank",
  mailbox: transfers,
  concurrency: 6,
  backoff: { minMs: 20 },
  log: silentLog, // it would log the failure and the expired message
  handler: async ({ body: { account, number } }, { attempt }) => {
    // Transfer 2 waits for its retry, and transfer 3 of this account waits for transfer 2.
    if (account === "ada" && number === 2 && attempt === 1) throw new Error("the line is busy");
    console.log(`${account}: transfer ${number}, attempt ${attempt}`);
    await systemClock.sleep(10); // the work
  },
});
const { counts } = await new LoopGroup([bank]).run({ maxMessages: 12 }); // eleven, and one retry
console.log(`${counts.acknowledged} acknowledged, ${counts.nacked} nacked`);

const third = await transfers.send({ account: "barbara", number: 1 }, once);
console.log(`transfer-7 after it was handled: stored ${third.stored}`);
const [letter] = await transfers.deadLetters.peek!(1);
console.log(`dead letter: ${letter?.body.body?.account}, ${letter?.body.reason}`);
await transfers.close();
