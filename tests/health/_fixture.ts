import { LoopGroup } from "../../src/group/loop_group.ts";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import type { Log } from "../../src/log.ts";
import { healthApp } from "../../src/health/mod.ts";
import type { HealthOptions } from "../../src/health/mod.ts";
import { FakeRuntime, FaultyMailbox, VirtualClock } from "../../src/testing/mod.ts";
import { type Deferred, deferred } from "../../src/_promises.ts";

/** A group on a virtual clock with one mailbox loop, and its health app. */
export class Fixture {
  readonly clock: VirtualClock = new VirtualClock();
  readonly mailbox: FaultyMailbox<string> = new FaultyMailbox("jobs", { clock: this.clock });
  readonly logged: string[] = [];
  readonly log: Log = {
    debug: () => {},
    info: () => {},
    warn: (message) => void this.logged.push(message),
    error: (message) => void this.logged.push(message),
  };
  readonly work: Deferred<void> = deferred();
  /** The bodies of the handled messages, in order. */
  readonly handled: string[] = [];
  #failure: Error | undefined;
  readonly loop: MailboxLoop<string> = new MailboxLoop({
    mailbox: this.mailbox,
    handler: async ({ body }) => {
      this.handled.push(body);
      if (this.#failure !== undefined) throw this.#failure;
      await this.work.promise;
    },
    clock: this.clock,
    log: this.log,
    concurrency: 4,
    deadLetter: { maxDeliveries: 1 },
  });
  readonly group: LoopGroup = new LoopGroup([this.loop], {
    clock: this.clock,
    runtime: new FakeRuntime(),
    log: this.log,
    watchdogThresholdMs: 60_000,
    unreadyDelayMs: 1_000,
  });

  app(options: HealthOptions = {}): ReturnType<typeof healthApp> {
    return healthApp(this.group, { clock: this.clock, log: this.log, ...options });
  }

  /** Makes the handler throw. */
  fail(failure: Error): void {
    this.#failure = failure;
  }

  async start(): Promise<void> {
    const running = this.group.run();
    running.catch(() => {});
    await this.clock.advance(10);
  }

  async stop(): Promise<void> {
    this.work.resolve();
    await this.clock.until(this.group.shutdown());
  }
}
