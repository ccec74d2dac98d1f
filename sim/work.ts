// What handlers do: the work of a message, with the faults that its handler itself causes.

import { RetryLaterError } from "../src/errors.ts";
import type { HandlerContext } from "../src/loops/handler.ts";
import type { Message } from "../src/mailbox/mailbox.ts";
import { FLAKY_FAILURES, type Job, STEPS } from "./jobs.ts";
import type { Ledger } from "./ledger.ts";
import type { Link } from "./link.ts";
import type { Handling, Tracked } from "./tracked.ts";

/** A handler that waits in vain is not told so. */
const NEVER = 2 ** 40;

/** A call of a handler, and what it needs of its process. */
export interface Call {
  readonly message: Message<Job, never>;
  readonly context: HandlerContext;
  readonly tracked: Tracked | undefined;
  readonly handling: Handling;
  readonly link: Link;
  readonly ledger: Ledger;
  readonly kill: (why: string) => void;
}

/** Does the work of a message. */
export async function work(call: Call): Promise<void> {
  const { message, context: { signal }, tracked, handling, link } = call;
  const { host } = link;
  const { work, ms } = message.body;
  const calls = tracked?.handlings.length ?? 0;
  switch (work) {
    case "ok":
      return await host.sleep(ms, { signal });
    case "stubborn":
      return await host.sleep(ms);
    case "flaky":
      await host.sleep(ms, { signal });
      if ((tracked?.failures ?? 0) < FLAKY_FAILURES) throw new Error("not yet");
      return;
    case "bad":
      await host.sleep(ms, { signal });
      throw new Error("always");
    case "hangs":
      return await host.sleep(calls <= 1 ? NEVER : ms);
    case "poison":
      await host.sleep(ms);
      call.kill(`is ended by ${message.receiptHandle}`);
      return await new Promise(() => {});
    case "blocks":
      link.disturb(ms);
      host.freeze(ms);
      return await host.sleep(1);
    case "steps":
      for (const name of STEPS) await step(call, name);
      return;
    case "later":
      await host.sleep(ms, { signal });
      if (calls <= 1) throw new RetryLaterError("too many", { delayMs: 500, pauseQueue: true });
      return;
    case "settles":
      await host.sleep(ms, { signal });
      await message.acknowledge();
      handling.outcome = "settled";
      return await host.sleep(ms);
  }
}

/** A step must not run again when its result was saved. */
async function step(
  { message, context, tracked, handling, link, ledger }: Call,
  name: string,
): Promise<void> {
  await context.step(name, async () => {
    if (tracked !== undefined) ledger.stepStarts(tracked, handling, name);
    await link.host.sleep(message.body.ms, { signal: context.signal });
    return name;
  });
  tracked?.savedSteps.add(name);
}
