/**
 * 22. Requests. A program sends a message and waits for the reply of its handler, which may run in another
 * process. Unlike with HTTP, a worker that is restarted meanwhile loses no request.
 *
 *     node examples/22_request.ts
 *
 * It ends by itself.
 */

import {
  InMemoryMailbox,
  isMailboxError,
  LoopGroup,
  MailboxLoop,
  silentLog,
  systemClock,
} from "../mod.ts";

/** Errors travel as values: a handler that throws sends no reply, and its request times out. */
type Answer = { readonly degrees: number } | { readonly error: string };

// With servers: await openMailbox<string, Answer>("redis://localhost?queue=weather")
const weather = new InMemoryMailbox<string, Answer>("weather");

const known = new Map([["Oslo", -3], ["Rome", 14]]);
const station = new MailboxLoop({
  mailbox: weather,
  concurrency: 4,
  log: silentLog,
  handler: async (message) => {
    const city = message.body;
    if (city === "Atlantis") return; // sends no reply
    await systemClock.sleep(city === "Oslo" ? 30 : 10);
    const degrees = known.get(city);
    await message.reply(degrees === undefined ? { error: "unknown city" } : { degrees });
  },
});
const group = new LoopGroup([station]);
const running = group.run();

// Replies arrive in any order, each at its own request.
const cities = ["Oslo", "Rome", "Utopia"];
const answers = await Promise.all(cities.map((city) => weather.request(city)));
for (const [i, answer] of answers.entries()) {
  console.log(`${cities[i]}: ${"error" in answer ? answer.error : `${answer.degrees} degrees`}`);
}

try {
  await weather.request("Atlantis", { timeoutMs: 100 });
} catch (error) {
  if (!isMailboxError(error, "RequestTimeoutError")) throw error;
  console.log("Atlantis: no reply in 100 ms");
}

await group.shutdown();
await running;
await weather.close();
