/**
 * 7. Health. A group with a `healthPort` answers probes, tells Prometheus its numbers, and can be drained
 * from outside by whoever has the token.
 *
 *     HEALTH_TOKEN=correct-horse-battery node examples/07_health.ts
 *
 *     curl -i http://127.0.0.1:8080/health/ready?verbose
 *     curl http://127.0.0.1:8080/metrics
 *     curl -X POST -H "Authorization: Bearer correct-horse-battery" http://127.0.0.1:8080/drain
 *     curl -X POST -H "Authorization: Bearer correct-horse-battery" http://127.0.0.1:8080/resume
 *
 * Press Ctrl+C: `/health/ready` is 503 at once, and the letters go on being sorted for a second, so that
 * routers notice before anything ends; then the rest of the stop follows. An argument names another port.
 */

import process from "node:process";
import { InMemoryMailbox, LoopGroup, MailboxLoop, StepLoop, systemClock } from "../mod.ts";

const [port = "8080"] = process.argv.slice(2);
const token = process.env["HEALTH_TOKEN"];
const letters = new InMemoryMailbox<number>("letters");

const postbox = new StepLoop("postbox", async ({ iteration, sleep }) => {
  await letters.send(iteration);
  await sleep(500);
}, { stopOrder: -1 });

const sorter = new MailboxLoop({
  name: "sorter",
  mailbox: letters,
  handler: () => systemClock.sleep(300),
});

const group = new LoopGroup([postbox, sorter], {
  shutdownTimeoutMs: 10_000, // the second below is part of it
  unreadyDelayMs: 1_000, // a Ctrl+C at a terminal skips it: nobody routes to a laptop
  healthPort: Number(port),
  healthHost: "127.0.0.1", // in a container leave it out: probes come from outside
  health: {
    // What has to hold beside the loops. One that throws, answers false or takes too long has failed.
    checks: { "not too many letters": () => letters.approximateCount().then((it) => it < 100) },
    mailboxes: [letters],
    // Without a token there are no paths that change anything.
    ...(token === undefined ? {} : { token }),
  },
});
group.on("phase", ({ phase }) => {
  if (phase === "running") console.log(`healthy at http://127.0.0.1:${port}/health/ready?verbose`);
  else console.log(`> ${phase}`);
});
await group.main();
