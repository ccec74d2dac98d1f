// What has become of each message, as the server and the handlers see it, and the rules about it.

import { type Entry, FREE_RELEASES } from "../src/mailbox/engine.ts";
import { OWNER_GRACE_MS } from "./engine.ts";
import { CronSlots, isCronRecord } from "./cron_slots.ts";
import { DeadLetters } from "./dead_letters.ts";
import { checkDone, checkStart, checkStep } from "./handlings.ts";
import { IdleWorkers } from "./idle_workers.ts";
import { CRON_QUEUE } from "./jobs.ts";
import { KeyLines } from "./key_lines.ts";
import { Leases } from "./leases.ts";
import type { Link } from "./link.ts";
import { MemberStates } from "./member_states.ts";
import type { Scheduler } from "./scheduler.ts";
import type { Held, LeaseTerms, NackTerms, SettlementKind } from "./delivery.ts";
import type { Server } from "./server.ts";
import { StoredMessages } from "./stored_messages.ts";
import { type Timeline, Violation } from "./timeline.ts";
import { type Handling, type Tracked, trackedOf } from "./tracked.ts";

/** How much earlier than its answer a look at the owners may count. */
const PROMPT_MS = 100;

/** Follows all messages. A step that breaks a rule throws a {@linkcode Violation} from `check`. */
export class Ledger {
  /** The workers that wait for messages. */
  readonly idle: IdleWorkers;
  /** The members on the board. */
  readonly members: MemberStates;
  /** The leases of all deliveries. */
  readonly leases: Leases;
  /** The dead letters of all queues. */
  readonly deadLetters: DeadLetters;
  /** The slots of the cron loops. */
  readonly cron: CronSlots;
  readonly #scheduler: Scheduler;
  readonly #timeline: Timeline;
  readonly #messages = new Map<string, Tracked>();
  readonly #stored: StoredMessages;
  readonly #byMessageId = new Map<string, Tracked>();
  readonly #lines: KeyLines;
  readonly #acknowledged = new Map<Link, number>();
  #violation: Violation | undefined;

  constructor(scheduler: Scheduler, timeline: Timeline) {
    this.#scheduler = scheduler;
    this.#timeline = timeline;
    const broken = this.broken.bind(this);
    this.idle = new IdleWorkers(scheduler, timeline, broken);
    this.members = new MemberStates(scheduler, timeline, broken);
    this.leases = new Leases(scheduler, timeline, this.idle, broken);
    this.deadLetters = new DeadLetters(broken);
    this.cron = new CronSlots(broken);
    this.#stored = new StoredMessages(this.deadLetters, broken);
    this.#lines = new KeyLines(scheduler, broken);
  }

  get open(): readonly Tracked[] {
    return this.#stored.all;
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
    this.#stored.check(server);
    if (this.#violation !== undefined) throw this.#violation;
  }

  sent(link: Link, queue: string, entry: Entry<string>, isStored: boolean): void {
    const { id, key, delayMs } = entry;
    const now = this.#scheduler.now;
    this.#timeline.add(link.host.name, `send ${queue}/${id}${isStored ? "" : " (duplicate)"}`);
    if (isCronRecord(queue)) return this.cron.recorded(entry);
    if (!isStored) return;
    if (queue === CRON_QUEUE) this.cron.sent(id);
    if (this.find(queue, id) !== undefined) this.broken("stored once", `${queue}/${id} twice`);
    this.members.checkSend(link, queue);
    const { message, messageId } = trackedOf(queue, entry, { now, number: this.#messages.size });
    this.#messages.set(`${queue}/${id}`, message);
    if (messageId !== undefined) this.#byMessageId.set(messageId, message);
    this.#stored.add(message);
    if (key === undefined) message.visibleSince = now + delayMs;
    else if (this.#lines.join(message)) message.visibleSince = now;
  }

  delivered(held: Held, terms: LeaseTerms): void {
    const { queue, delivery: { deliveryCount }, link, handle } = held;
    const message = this.#find(held, "delivered");
    if (message === undefined) return;
    const verb = terms.leasedMs === undefined ? "receives" : "is handed";
    this.#timeline.add(link.host.name, `${verb} ${handle} (delivery ${deliveryCount})`);
    const { lease } = message;
    if (lease !== undefined) {
      this.leases.expired(lease);
      message.lostLeases++;
    }
    const expected = ++message.deliveryCount;
    if (deliveryCount !== expected) {
      this.broken("attempts", `${handle} is delivery ${deliveryCount}, not ${expected}`);
    }
    this.#lines.check(message);
    this.idle.check(message, link);
    this.leases.begins({ message, handle, link, ...terms });
    message.visibleSince = undefined;
    this.idle.took(link, queue);
  }

  /** A receive has found no message. */
  foundNone(link: Link, queue: string): void {
    const holds = this.#stored.of(queue).some(({ lease }) => lease?.link === link);
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
    terms: NackTerms & { readonly done: boolean },
  ): void {
    const { done, countsAttempt } = terms;
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
    this.leases.settled(handle, link);
    const handling = message.handlings.findLast((it) => it.handle === handle);
    message.lease = undefined;
    if (kind === "acknowledge") this.#onAcknowledged(message, handling, link);
    else if (kind === "deadLetter") this.#leave(message, "dead");
    else {
      if (!countsAttempt) message.deliveryCount--;
      if (kind === "release" && message.releases++ < FREE_RELEASES) message.deliveryCount--;
      this.#returned(message, kind, handling, held, terms);
    }
  }

  deadLetter(held: Held, letter: Entry<string>): void {
    const message = this.find(held.queue, held.delivery.id);
    if (message === undefined) return;
    const { handle, link: { host } } = held;
    const reason = this.deadLetters.add(message, handle, { letter, now: this.#scheduler.now });
    this.#timeline.add(host.name, `dead letter ${handle}: ${reason}`);
  }

  checkpoint({ queue, delivery: { id } }: Held): void {
    const message = this.find(queue, id);
    if (message !== undefined) message.releases = 0;
  }

  /** Records that no receive has returned a delivery: its handover or its answer was lost. */
  takenBack({ handle, queue, delivery: { id } }: Held): void {
    const message = this.find(queue, id)!;
    this.#timeline.add("server", `takes ${handle} back`);
    message.lease = undefined;
    message.deliveryCount--;
    message.visibleSince = this.#scheduler.now;
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
    if (message.lease !== undefined) message.lease.isCancelled = true;
    const handling = message.handlings.at(-1);
    if (handling?.outcome === "running") handling.cancelledAt = this.#scheduler.now;
    this.#leave(message, "cancelled");
  }

  /** A handler begins. Returns the record in which it notes how it ends. */
  starts(link: Link, queue: string, id: string, handle: string): Handling {
    const { now } = this.#scheduler;
    this.#timeline.add(link.host.name, `starts ${handle}`);
    const message = this.find(queue, id);
    const lease = this.leases.get(handle);
    const deliveredAt = lease?.since ?? now;
    const handling: Handling = {
      ...{ handle, link, deliveredAt, startedAt: now },
      outcome: "running",
      cancelledAt: undefined,
      isLeft: false,
    };
    if (message === undefined) return handling;
    checkStart(message, handling, lease, this.broken.bind(this));
    message.handlings.push(handling);
    return handling;
  }

  /** Records that a handler begins a step. */
  stepStarts(message: Tracked, handling: Handling, name: string): void {
    const lease = this.leases.get(handling.handle)!;
    const { now } = this.#scheduler;
    checkStep(message, handling, { lease, name, now }, this.broken.bind(this));
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
    { countsAttempt, delayMs }: NackTerms,
  ): void {
    if (handling?.outcome === "running" && !link.host.dead) {
      this.broken("one at a time", `${kind} of ${handle} while its handler runs`);
    }
    if (handling?.outcome === "done" && !handling.isLeft) {
      this.broken("handled once", `${kind} of ${handle} after its handler was done`);
    }
    if (kind === "nack" && handling?.outcome === "cancelled" && countsAttempt) {
      this.broken("attempts", `${handle} was cancelled, and spent an attempt`);
    }
    if (kind === "nack" && handling?.outcome === "failed") message.failures++;
    message.visibleSince = this.#scheduler.now + delayMs;
  }

  #leave(message: Tracked, place: Tracked["place"]): void {
    const { key } = message;
    message.place = place;
    message.lease = undefined;
    this.#stored.delete(message);
    const next = key === undefined ? undefined : this.#lines.leave(message);
    // A message that was already first, before a delayed message joined behind it, may wait for its retry.
    if (next !== undefined) next.visibleSince ??= this.#scheduler.now;
  }

  #find({ queue, handle, delivery: { id } }: Held, what: string): Tracked | undefined {
    if (isCronRecord(queue)) return undefined;
    const message = this.find(queue, id);
    if (message?.place !== "stored" && message?.place !== undefined && what === "delivered") {
      this.broken("no message returns", `${handle} was ${what} after it was ${message.place}`);
    }
    return message;
  }
}
