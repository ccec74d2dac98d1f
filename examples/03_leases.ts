/**
 * 3. Leases. A received message is hidden from other workers for its visibility timeout. While a handler works,
 * the loop extends the lease, so that the timeout can be shorter than the work.
 *
 *     node examples/03_leases.ts
 *
 * It ends by itself. It handles a message three times; each takes longer than the visibility timeout.
 */

import {
  InMemoryMailbox,
  type LeaseExtenderOptions,
  LoopGroup,
  MailboxLoop,
  silentLog,
  systemClock,
} from "../mod.ts";

/** Handles one message, and prints how often its handler was started. */
async function roast(title: string, lease: LeaseExtenderOptions | false, stuckMs = 0) {
  console.log(`\n${title}`);
  const orders = new InMemoryMailbox<string>("orders");
  await orders.send("roast");
  const kitchen = new MailboxLoop({
    mailbox: orders,
    concurrency: 2,
    visibilityTimeoutMs: 400,
    lease,
    log: silentLog,
    handler: async (_, { attempt, signal, beat }) => {
      console.log(`  begun, attempt ${attempt}`);
      signal.addEventListener("abort", () => console.log(`  lease lost, attempt ${attempt}`));
      if (attempt === 1) await systemClock.sleep(stuckMs);
      for (let passed = 0; passed < 900; passed += 100) {
        await systemClock.sleep(100);
        signal.throwIfAborted(); // a LeaseLostError, or a CancelledError near the deadline of a stop
        beat();
      }
      console.log(`  done, attempt ${attempt}`);
      void group.shutdown(); // the stop waits for this handler
    },
  });
  const group = new LoopGroup([kitchen], { shutdownTimeoutMs: 5_000 });
  const { counts } = await group.run();
  const { attempts, withheld } = kitchen.leases.counters;
  console.log(`  received ${counts.received}, acknowledged ${counts.acknowledged};`);
  console.log(`  extended ${attempts} times, withheld ${withheld} times`);
}

await roast("Without a lease, another worker receives the message as well:", false);
await roast("With a lease, the message is handled once (the default):", {});
// Without heartbeats for 300 ms the lease is not extended, and another worker gets the message.
await roast("A stuck handler loses its lease:", { beatWithinMs: 300 }, 1_000);
