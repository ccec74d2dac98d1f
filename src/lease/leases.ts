import { type Clock, systemClock } from "../clock.ts";
import type { Mailbox, Message } from "../mailbox/mailbox.ts";
import { KeptLease, type LeaseOwner, type LeaseTerms } from "./_kept_lease.ts";
import type { Lease } from "./lease.ts";
import { LeaseKeeper } from "./_lease_keeper.ts";
import { type LeasePost, OffThread } from "./_off_thread.ts";

/** How leases are kept, beside their terms. */
export interface LeasesOptions {
  readonly enabled: boolean;
  readonly offThread: boolean;
  readonly clock: Clock;
}

/** The leases of many messages of one mailbox, on the same terms. */
export class Leases {
  readonly #mailbox: Mailbox<unknown> | undefined;
  readonly #terms: LeaseTerms;
  readonly #owner: LeaseOwner;
  readonly #options: LeasesOptions;
  readonly #keeper: LeaseKeeper;
  #letGo: (() => void) | undefined;
  #post: LeasePost | undefined;

  /** Nothing ticks before the first lease. */
  constructor(
    mailbox: Mailbox<unknown> | undefined,
    terms: LeaseTerms,
    owner: LeaseOwner,
    options: LeasesOptions,
  ) {
    this.#mailbox = mailbox;
    this.#terms = terms;
    this.#owner = owner;
    this.#options = options;
    this.#keeper = LeaseKeeper.of(options.clock);
  }

  /** Prepares for many, until `end`: a timer that waits for them, a thread where that can be had. */
  begin(): Promise<void> | undefined {
    this.#letGo = this.#keeper.hold();
    const { enabled, offThread, clock } = this.#options;
    // A thread lives by the machine's time.
    const wanted = enabled && offThread && clock === systemClock;
    return wanted && this.#mailbox?.leaseKeeping !== undefined ? this.#join() : undefined;
  }

  /** Keeps a message leased until the lease is stopped or disposed of. */
  take(message: Message<unknown>): Lease {
    const { enabled, clock } = this.#options;
    const lease = new KeptLease(
      message,
      this.#mailbox,
      this.#terms,
      this.#owner,
      clock,
      this.#post,
    );
    if (enabled) this.#keeper.keep(lease);
    return lease;
  }

  /** Takes back what `begin` has prepared. Leases that are still kept are kept from here alone. */
  end(): void {
    this.#post?.leave();
    this.#post = undefined;
    this.#letGo?.();
    this.#letGo = undefined;
  }

  async #join(): Promise<void> {
    const plan = await this.#mailbox!.leaseKeeping!();
    if (plan === undefined) return;
    const post = await OffThread.join(plan, this.#terms, this.#owner.log);
    // Ended meanwhile: nobody would take it back.
    if (this.#letGo === undefined) post?.leave();
    else this.#post = post;
  }
}
