/**
 * 3. Leases. A received message is hidden from other workers for the visibility timeout. A short timeout
 * brings the message of a dead process back soon. Handlers may still take longer, because the loop extends
 * the lease while the handler works.
 *
 *     node examples/03_leases.ts
 *
 * It ends by itself. It cooks the same roast three times; each takes longer than the visibility timeout.
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

/** Cooks one roast and prints how often it was started. */
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
      void group.shutdown(); // the stop waits for this handler
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

// A stuck handler would keep its message for ever. With `beatWithinMs` the lease is extended only while the
// handler calls `beat`. When it stops doing so, another worker gets the message, and `signal` of the stuck
// handler aborts.
await cook("Whoever is stuck loses it:", { beatWithinMs: 200 }, async (attempt, signal, beat) => {
  signal.addEventListener("abort", () => console.log(`  given up, attempt ${attempt}`));
  if (attempt === 1) await systemClock.sleep(600);
  for (let passed = 0; passed < ROAST_MS; passed += 100) {
    await systemClock.sleep(100);
    signal.throwIfAborted(); // throws a LeaseLostError, or a CancelledError near the deadline of a stop
    beat();
  }
});
