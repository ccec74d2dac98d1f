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
  readonly step: number;
}

const transfers = new InMemoryMailbox<Transfer | "alarm">("transfers");

// Keys: the steps of an account are handled in order, although six messages are handled at a time.
const steps = ["ada", "grace", "edsger"].flatMap((account) =>
  [1, 2, 3].map((step) => ({ account, step }))
);
await transfers.sendMany(steps, (body) => ({ key: (body as Transfer).account }));

// Priority: it was sent last and is received first.
await transfers.send("alarm", { priority: 9 });

// Deduplication: a sender that is not sure whether its first send arrived sends again.
const once = { id: "transfer-7", dedupMs: 3_600_000, key: "barbara" };
const first = await transfers.send({ account: "barbara", step: 1 }, once);
const second = await transfers.send({ account: "barbara", step: 1 }, once);
console.log(`transfer-7: stored ${first.stored}, then ${second.stored}`);

// Expiry: too late for a worker, so that it becomes a dead letter.
await transfers.send({ account: "donald", step: 1 }, { expiresInMs: 1 });
await systemClock.sleep(5);

const running = new Set<string>();
const bank = new MailboxLoop({
  name: "bank",
  mailbox: transfers,
  concurrency: 6,
  backoff: { minMs: 20 },
  log: silentLog, // it would log the failure and the expired message
  handler: async ({ body }, { attempt }) => {
    if (body === "alarm") return console.log("alarm: before all transfers");
    const { account, step } = body;
    if (running.has(account)) throw new Error(`two transfers of ${account} at a time`);
    running.add(account);
    await systemClock.sleep(10);
    running.delete(account);
    // Step 2 waits for its retry, and step 3 of this account waits for step 2.
    if (account === "ada" && step === 2 && attempt === 1) throw new Error("the line was busy");
    console.log(`${account}: step ${step}, attempt ${attempt}`);
  },
});

// Ten transfers, the alarm, and one retry.
const { counts } = await new LoopGroup([bank]).run({ maxMessages: 12 });
console.log(`${counts.acknowledged} acknowledged, ${counts.nacked} nacked`);

const third = await transfers.send({ account: "barbara", step: 1 }, once);
console.log(`transfer-7 after it was handled: stored ${third.stored}`);
for (const { body: letter } of await transfers.deadLetters.peek!(10)) {
  console.log(`dead letter: ${(letter.body as Transfer).account}, ${letter.reason}`);
}
await transfers.close();
