/**
 * 25. A rate limit and a cooldown. Two workers share a queue and call an API that allows some calls per
 * second. The limit of the queue holds for all workers together. When the API refuses all calls for a while,
 * one answer with the status 429 pauses the whole queue, so that the other calls are not refused as well.
 *
 *     node examples/25_rate_limit.ts
 *
 * It ends by itself.
 */

import { InMemoryMailbox, LoopGroup, MailboxLoop, RetryLaterError, systemClock } from "../mod.ts";

/** Stands for an API. Its 26th call overloads it: it refuses all calls for a while. */
let calls = 0;
let refused = 0;
let busyUntil = 0;
function post(_mail: string): { readonly status: number; readonly retryAfterMs: number } {
  const now = systemClock.monotonic();
  if (++calls === 26) busyUntil = now + 250;
  if (now >= busyUntil) return { status: 200, retryAfterMs: 0 };
  refused++;
  return { status: 429, retryAfterMs: 300 };
}

// With servers: await openMailbox<string>("redis://localhost?queue=mails")
const mails = new InMemoryMailbox<string>("mails");
await mails.sendMany(Array.from({ length: 50 }, (_, i) => `mail ${i}`));
await mails.rateLimit({ max: 10, perMs: 200 }); // stored with the queue, for all processes

let sent = 0;
const worker = (name: string) =>
  new MailboxLoop({
    name,
    mailbox: mails,
    prefetch: 0, // a message counts when it is received, so receive it when it can be handled
    handler: ({ body }) => {
      const { status, retryAfterMs } = post(body);
      if (status === 429) {
        console.log(`refused: the queue pauses for ${retryAfterMs} ms`);
        throw new RetryLaterError("the API is busy", { delayMs: retryAfterMs, pauseQueue: true });
      }
      if (++sent === 50) void group.shutdown();
    },
  });

const group = new LoopGroup([worker("worker 1"), worker("worker 2")]);
const beganAt = systemClock.monotonic();
const { counts } = await group.run();
const tookMs = Math.round(systemClock.monotonic() - beganAt);
console.log(`${counts.acknowledged} sent in ${tookMs} ms, ${refused} of ${calls} calls refused`);
await mails.close();
