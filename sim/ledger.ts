// What has become of each message, as the server and the handlers see it, and the rules about it.

import { type Entry, FREE_RELEASES } from "../src/mailbox/engine.ts";
import { OWNER_GRACE_MS } from "./engine.ts";
import { checkDeadLetter, checkDone, checkStart } from "./handlings.ts";
import { IdleWorkers } from "./idle_workers.ts";
import { KeyLines } from "./key_lines.ts";
import type { Link } from "./link.ts";
import { MemberStates } from "./member_states.ts";
import type { Scheduler } from "./scheduler.ts";
import type { Held, Server, SettlementKind } from "./server.ts";
import { type Timeline, Violation } from "./timeline.ts";
import type { Handling, Lease, Tracked } from "./tracked.ts";

/** How much earlier than its answer a look at the owners may count. */
const PROMPT_MS = 100;

/** Follows all messages. A step that breaks a rule throws a {@linkcode Violation} from `check`. */
export class Ledger {
  /** The workers that wait for messages. */
  readonly idle: IdleWorkers;
  /** The members on the board. */
  readonly members: MemberStates;
  readonly #scheduler: Scheduler;
  readonly #timeline: Timeline;
  readonly #messages = new Map<string, Tracked>();
  readonly #stored = new Map<string, Set<Tracked>>();
  readonly #byMessageId = new Map<string, Tracked>();
  readonly #dead = new Map<string, number>();
  readonly #lines: KeyLines;
  /** The leases of all deliveries, by receipt handle. */
  readonly #leases = new Map<string, Lease>();
  readonly #settledBy = new Map<string, Link>();
  readonly #acknowledged = new Map<Link, number>();
  #violation: Violation | undefined;
  #maxDeliveries = new Map<string, number>();

  constructor(scheduler: Scheduler, timeline: Timeline) {
    this.#scheduler = scheduler;
    this.#timeline = timeline;
    const broken = this.broken.bind(this);
    this.idle = new IdleWorkers(scheduler, timeline, broken);
    this.members = new MemberStates(scheduler, timeline, broken);
    this.#lines = new KeyLines(scheduler, broken);
  }

  /** The first rule that was broken. */
  get violation(): Violation | undefined {
    return this.#violation;
  }

  /** All messages that were stored. */
  get messages(): Iterable<Tracked> {
    return this.#messages.values();
  }

  get open(): readonly Tracked[] {
    return [...this.#stored.values()].flatMap((it) => [...it]);
  }

  /** Returns the message in an inbox by its id on the bus. */
  findOnBus(messageId: string): Tracked | undefined {
    return this.#byMessageId.get(messageId);
  }

  find(queue: string, id: string): Tracked | undefined {
    return this.#messages.get(`${queue}/${id}`);
  }

  /** Reports that a rule is broken. The first report counts. */
  broken(rule: string, text: string): void {
    if (this.#violation !== undefined) return;
    this.#violation = new Violation(rule, text);
    this.#timeline.add("rule", `broken: ${this.#violation.message}`);
  }

  /** Compares what the engine stores with what must be there. */
  check(server: Server): void {
    for (const [queue, stored] of this.#stored) {
      const count = server.engine(queue).count();
      if (count !== stored.size) {
        this.broken("no loss", `queue ${queue} has ${count} messages instead of ${stored.size}`);
      }
      const dead = server.engine(`${queue}.dead`).count();
      const expected = this.#dead.get(queue) ?? 0;
      if (dead !== expected) {
        this.broken("no loss", `queue ${queue} has ${dead} dead letters instead of ${expected}`);
      }
    }
    if (this.#violation !== undefined) throw this.#violation;
  }

  sent(link: Link, queue: string, entry: Entry<string>, isStored: boolean): void {
    const { id, key, delayMs } = entry;
    const now = this.#scheduler.now;
    this.#timeline.add(link.host.name, `send ${queue}/${id}${isStored ? "" : " (duplicate)"}`);
    if (queue.endsWith(".cron")) return; // records of slots, which are replaced
    if (!isStored) return;
    if (this.find(queue, id) !== undefined) this.broken("stored once", `${queue}/${id} twice`);
    const body = JSON.parse(entry.body);
    this.members.checkSend(link, queue);
    const meta = entry.meta === undefined ? {} : JSON.parse(entry.meta);
    const message: Tracked = {
      queue,
      id,
      key,
      job: body.payload ?? body,
      number: this.#messages.size,
      sentAt: now,
      isDelayed: delayMs > 0,
      expiresAt: now + (meta.expiresInMs ?? Infinity),
      place: "stored",
      lease: undefined,
      handlings: [],
      visibleSince: undefined,
      lostLeases: 0,
      failures: 0,
      deliveryCount: 0,
      releases: 0,
      savedSteps: new Set(),
    };
    this.#messages.set(`${queue}/${id}`, message);
    if (body.msg_id !== undefined) this.#byMessageId.set(body.msg_id, message);
    const stored = this.#stored.get(queue) ?? new Set();
    this.#stored.set(queue, stored.add(message));
    if (key === undefined) {
      message.visibleSince = now + delayMs;
      return;
    }
    if (this.#lines.join(message)) message.visibleSince = now;
  }

  delivered(held: Held, until: number): void {
    const { queue, delivery, link, handle } = held;
    const { now } = this.#scheduler;
    const message = this.#find(held, "delivered");
    if (message === undefined) return;
    this.#timeline.add(link.host.name, `receives ${handle} (delivery ${delivery.deliveryCount})`);
    const { lease } = message;
    if (lease !== undefined) this.#expired(message, lease);
    if (++message.deliveryCount !== delivery.deliveryCount) {
      const { deliveryCount } = delivery;
      this.broken(
        "attempts",
        `${handle} is delivery ${deliveryCount}, not ${message.deliveryCount}`,
      );
    }
    this.#lines.check(message);
    this.idle.check(message, link);
    const visibilityMs = until - now;
    message.lease = { handle, link, since: now, visibilityMs, until, arrivedAt: Infinity };
    this.#leases.set(handle, message.lease);
    message.visibleSince = undefined;
    this.idle.took(link, queue);
  }

  /** A delivery has reached its process. */
  arrived(handle: string): void {
    const lease = this.#leases.get(handle);
    if (lease !== undefined) lease.arrivedAt = this.#scheduler.now;
  }

  /** A receive has found no message. */
  foundNone(link: Link, queue: string): void {
    const holds = [...this.#stored.get(queue) ?? []].some(({ lease }) => lease?.link === link);
    this.idle.foundNone(link, queue, holds);
  }

  /** A process was killed. `isOwner` tells for which queues the server watches it. */
  died(dead: Link, isOwner: (queue: string) => boolean): void {
    const held = this.open.filter(({ lease, queue }) => lease?.link === dead && isOwner(queue));
    this.idle.expectRecovery(held);
  }

  /** How many messages a process has acknowledged. */
  acknowledgedBy(link: Link): number {
    return this.#acknowledged.get(link) ?? 0;
  }

  settled(
    held: Held,
    by: Link,
    kind: SettlementKind,
    outcome: { readonly done: boolean; readonly countsAttempt: boolean },
  ): void {
    const { done, countsAttempt } = outcome;
    const { handle, link } = held;
    const { now } = this.#scheduler;
    const message = this.#find(held, "settled");
    if (message === undefined) return;
    const note = done ? "" : " (refused: the lease has expired)";
    this.#timeline.add(by.host.name, `${kind} ${handle}${note}`);
    const { lease } = message;
    const isValid = lease?.handle === handle && now < lease.until;
    if (done !== isValid) {
      this.broken("fence", `${kind} of ${handle} was ${done ? "accepted" : "refused"}`);
    }
    if (!done || lease === undefined) return;
    this.#settledBy.set(handle, link);
    const handling = message.handlings.findLast((it) => it.handle === handle);
    message.lease = undefined;
    if (kind === "acknowledge") this.#onAcknowledged(message, handling, link);
    else if (kind === "deadLetter") this.#leave(message, "dead");
    else {
      if (!countsAttempt) message.deliveryCount--;
      if (kind === "release" && message.releases++ < FREE_RELEASES) message.deliveryCount--;
      this.#returned(message, kind, handling, held, countsAttempt);
    }
  }

  deadLetter(held: Held, letter: Entry<string>): void {
    const message = this.find(held.queue, held.delivery.id);
    const { reason } = JSON.parse(letter.body);
    if (message === undefined) return;
    this.#timeline.add(held.link.host.name, `dead letter ${held.handle}: ${reason}`);
    this.#dead.set(held.queue, (this.#dead.get(held.queue) ?? 0) + 1);
    if (reason === "expired") {
      if (this.#scheduler.now < message.expiresAt) {
        this.broken("expiry", `${held.handle} had not expired`);
      }
      return;
    }
    const most = this.#maxDeliveries.get(held.queue) ?? 10;
    checkDeadLetter(message, held.handle, most, this.broken.bind(this));
  }

  /** The most deliveries of messages of a queue. */
  allowDeliveries(queue: string, most: number): void {
    this.#maxDeliveries.set(queue, most);
  }

  extended({ handle, queue, delivery: { id } }: Held, until: number, done: boolean): void {
    const lease = this.find(queue, id)?.lease;
    const isValid = lease?.handle === handle && this.#scheduler.now < lease.until;
    if (done !== isValid) this.broken("fence", `an extension of ${handle} was ${done}`);
    if (done && lease !== undefined) lease.until = Math.max(lease.until, until);
  }

  /** A process has asked to extend a lease that it had settled. */
  extendedSettled(handle: string): void {
    const link = this.#settledBy.get(handle);
    if (link?.undisturbedSince(this.#scheduler.now - 10_000) === true) {
      this.broken("no extension after a settlement", handle);
    }
  }

  checkpoint({ queue, delivery: { id } }: Held): void {
    const message = this.find(queue, id);
    if (message !== undefined) message.releases = 0;
  }

  ownerExpired({ handle, queue, link, delivery: { id } }: Held): void {
    const message = this.find(queue, id)!;
    this.#timeline.add("server", `ends the lease of ${handle}`);
    const absentMs = this.#scheduler.now - link.absentSince;
    if (absentMs < (OWNER_GRACE_MS - PROMPT_MS) * 0.98) {
      this.broken("live owners keep their leases", `${handle}, absent for ${absentMs} ms`);
    }
    link.disturb(0);
    message.lease = undefined;
    message.lostLeases++;
    message.visibleSince = this.#scheduler.now;
  }

  cancelled(queue: string, id: string): void {
    const message = this.find(queue, id);
    this.#timeline.add("admin", `cancel ${queue}/${id}`);
    if (message?.place !== "stored") return;
    const handling = message.handlings.at(-1);
    if (handling?.outcome === "running") handling.cancelledAt = this.#scheduler.now;
    this.#leave(message, "cancelled");
  }

  /** A handler begins. Returns the record in which it notes how it ends. */
  starts(link: Link, queue: string, id: string, handle: string): Handling {
    const { now } = this.#scheduler;
    this.#timeline.add(link.host.name, `starts ${handle}`);
    const message = this.find(queue, id);
    const lease = this.#leases.get(handle);
    const deliveredAt = lease?.since ?? now;
    const handling: Handling = {
      ...{ handle, link, deliveredAt, startedAt: now },
      outcome: "running",
      cancelledAt: undefined,
    };
    if (message === undefined) return handling;
    checkStart(message, handling, lease, this.broken.bind(this));
    message.handlings.push(handling);
    return handling;
  }

  /** A handler has returned. */
  done(handling: Handling): void {
    checkDone(handling, this.#scheduler.now, this.broken.bind(this));
  }

  #onAcknowledged(message: Tracked, handling: Handling | undefined, link: Link): void {
    this.#acknowledged.set(link, this.acknowledgedBy(link) + 1);
    const isExpired = handling === undefined && message.expiresAt < Infinity;
    const isDone = handling?.outcome === "done" || message.job.work === "settles";
    if (!isDone && !isExpired) {
      const how = handling?.outcome ?? "not started";
      this.broken("no loss", `${message.queue}/${message.id} was acknowledged while ${how}`);
    }
    this.#leave(message, "acknowledged");
  }

  #returned(
    message: Tracked,
    kind: "release" | "nack",
    handling: Handling | undefined,
    { handle, link }: Held,
    countsAttempt: boolean,
  ): void {
    if (handling?.outcome === "running" && !link.host.dead) {
      this.broken("one at a time", `${kind} of ${handle} while its handler runs`);
    }
    if (handling?.outcome === "done") {
      this.broken("handled once", `${kind} of ${handle} after its handler was done`);
    }
    if (kind === "nack" && handling?.outcome === "cancelled" && countsAttempt) {
      this.broken("attempts", `${handle} was cancelled, and spent an attempt`);
    }
    if (kind === "nack" && handling?.outcome === "failed") message.failures++;
    // A nack may hide the message for a while.
    message.visibleSince = kind === "release" ? this.#scheduler.now : undefined;
  }

  #leave(message: Tracked, place: Tracked["place"]): void {
    const { queue, key } = message;
    message.place = place;
    message.lease = undefined;
    this.#stored.get(queue)?.delete(message);
    const next = key === undefined ? undefined : this.#lines.leave(message);
    if (next !== undefined) next.visibleSince = this.#scheduler.now;
  }

  /** A lease has expired, and the message is delivered again. */
  #expired(message: Tracked, { handle, link, since, until, visibilityMs }: Lease): void {
    if (this.#scheduler.now < until) this.broken("one lease", `${handle} has not expired`);
    this.#timeline.add("server", `the lease of ${handle} has expired`);
    // Extensions and acknowledgements that a fault has hit are tried again; a nack only five times.
    const outcome = message.handlings.findLast((it) => it.handle === handle)?.outcome;
    const isKept = outcome !== "failed" && outcome !== "cancelled";
    if (isKept && link.undisturbedSince(Math.max(since, until - visibilityMs / 2))) {
      this.broken("leases last", `${handle} of ${link.host.name} expired without a fault`);
    }
    message.lostLeases++;
  }

  #find({ queue, handle, delivery: { id } }: Held, what: string): Tracked | undefined {
    if (queue.endsWith(".cron")) return undefined;
    const message = this.find(queue, id);
    if (message?.place !== "stored" && message?.place !== undefined && what === "delivered") {
      this.broken("no message returns", `${handle} was ${what} after it was ${message.place}`);
    }
    return message;
  }
}
