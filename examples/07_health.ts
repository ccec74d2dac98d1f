/**
 * 7. Health. A group with a `healthPort` answers probes, exports Prometheus metrics, and can be paused by a
 * request with the token.
 *
 *     HEALTH_TOKEN=correct-horse-battery node examples/07_health.ts
 *
 *     curl -i http://127.0.0.1:8080/health/ready?verbose
 *     curl http://127.0.0.1:8080/metrics
 *     curl -X POST -H "Authorization: Bearer correct-horse-battery" http://127.0.0.1:8080/pause
 *     curl -X POST -H "Authorization: Bearer correct-horse-battery" http://127.0.0.1:8080/resume
 *
 * Send it SIGTERM: `/health/ready` answers 503 immediately, and the loops continue for a second, so that load
 * balancers notice first. Then the rest of the stop follows. An argument names another port.
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
  shutdownTimeoutMs: 10_000, // includes `unreadyDelayMs`
  unreadyDelayMs: 1_000, // Ctrl+C at a terminal skips it
  healthPort: Number(port),
  healthHost: "127.0.0.1", // omit it in a container, where probes come from outside
  health: {
    // A check that throws, returns false or takes too long fails, and readiness is off.
    checks: { "not too many letters": () => letters.approximateCount().then((it) => it < 100) },
    mailboxes: [letters],
    // Without a token the paths that change something do not exist.
    ...(token === undefined ? {} : { token }),
  },
});
group.on("phase", ({ phase }) => {
  if (phase === "running") console.log(`healthy at http://127.0.0.1:${port}/health/ready?verbose`);
  else console.log(`> ${phase}`);
});
await group.main();
