import { silentLog } from "../../src/log.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import type { MailboxOptions } from "../../src/mailbox/mailbox.ts";
import type { Handler } from "../../src/loops/handler.ts";
import { MailboxLoop, type MailboxLoopOptions } from "../../src/loops/mailbox_loop.ts";
import { VirtualClock } from "../../src/testing/virtual_clock.ts";

/** A mailbox on a virtual clock, and loops that work on it. */
export class Worker {
  readonly clock: VirtualClock = new VirtualClock();
  readonly mailbox: InMemoryMailbox<number>;

  constructor(options: MailboxOptions = {}) {
    const { clock } = this;
    this.mailbox = new InMemoryMailbox("jobs", { clock, log: silentLog, ...options });
  }

  loop(
    handler: Handler<number>,
    options: Partial<MailboxLoopOptions<number>> = {},
  ): MailboxLoop<number> {
    const { clock, mailbox } = this;
    return new MailboxLoop({ mailbox, handler, clock, log: silentLog, ...options });
  }

  async fill(count: number): Promise<void> {
    await this.mailbox.sendMany(Array.from({ length: count }, (_, i) => i + 1));
  }

  /** Runs a loop until nothing is left in the mailbox. */
  async workOff(loop: MailboxLoop<number>): Promise<void> {
    const run = loop.run();
    while (await this.mailbox.approximateCount() > 0) await this.clock.advance(1_000);
    await this.clock.until(loop.shutdown());
    await run;
  }

  /** The bodies that are there and visible, in order. */
  async visible(): Promise<number[]> {
    const messages = await this.mailbox.receive({ maxMessages: 1_000 });
    await this.mailbox.releaseMany(messages);
    return messages.map(({ body }) => body);
  }
}
