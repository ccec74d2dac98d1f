/**
 * 3. Leases. A message that was received is hidden from others, for a while. The while should be short, so
 * that the message of a process that died comes back soon; and the work may be long. A lease that is
 * extended while the handler works allows for both.
 *
 *     node examples/03_leases.ts
 *
 * It ends by itself. Three times the same roast, which takes longer than the message is hidden.
 */

import {
  InMemoryMailbox,
  type LeaseExtenderOptions,
  LoopGroup,
  MailboxLoop,
  silentLog,
  systemClock,
} from "../mod.ts";

const VISIBILITY_MS = 400;
const ROAST_MS = 900;

/** Cooks one roast, and tells how often it was begun. */
async function cook(
  title: string,
  lease: LeaseExtenderOptions | false,
  roast: (attempt: number, signal: AbortSignal, beat: () => void) => Promise<void>,
): Promise<void> {
  console.log(`\n${title}`);
  const orders = new InMemoryMailbox<string>("orders");
  await orders.send("roast");
  const cooks = new MailboxLoop({
    mailbox: orders,
    concurrency: 2,
    lease,
    log: silentLog,
    handler: async (_, { attempt, signal, beat }) => {
      console.log(`  begun, attempt ${attempt}`);
      await roast(attempt, signal, beat);
      console.log(`  done, attempt ${attempt}`);
      void group.shutdown(); // one is enough; this handler is still waited for
    },
  });
  const group = new LoopGroup([cooks], { shutdownTimeoutMs: 5_000 });
  const { counts } = await group.run({ visibilityTimeoutMs: VISIBILITY_MS });
  const { attempts, withheld } = cooks.leases.counters;
  console.log(`  received ${counts.received}, acknowledged ${counts.acknowledged};`);
  console.log(`  extended ${attempts} times, withheld ${withheld} times`);
}

await cook("Without a lease a second cook begins as well:", false, () => {
  return systemClock.sleep(ROAST_MS);
});

// This is the default: nothing needs to be set.
await cook("With one it is cooked once:", {}, () => systemClock.sleep(ROAST_MS));

// The other side of it: whoever is stuck would keep a message for ever. With `beatWithinMs` the lease lasts
// only as long as the handler gives signs of life, and then somebody else begins. Should the first one
// come round, its `signal` tells it that the message is not its own any more.
await cook("Whoever is stuck loses it:", { beatWithinMs: 200 }, async (attempt, signal, beat) => {
  signal.addEventListener("abort", () => console.log(`  given up, attempt ${attempt}`));
  if (attempt === 1) await systemClock.sleep(600);
  for (let passed = 0; passed < ROAST_MS; passed += 100) {
    await systemClock.sleep(100);
    signal.throwIfAborted(); // a LeaseLostError; near the deadline of a stop a CancelledError
    beat();
  }
});
