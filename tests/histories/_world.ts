// One possible state of a queue, and what calls do to it.

import type { Settling } from "../mailbox/_commands.ts";
import { Model, type ModelMessage, type Result } from "../mailbox/_model.ts";
import type { Answer, Call, Look, Seen, Sent } from "./_calls.ts";
import { LONG_MS, type Rules, SETTLEMENTS, type Tracked, type Uncertain } from "./_rules.ts";

/** A possible result of a call: what it answers, and the world after it. */
export interface Outcome {
  readonly world: World;
  readonly answer: unknown;
}

/** One possible state of a queue. Calls change it; copy it first. */
export class World {
  readonly rules: Rules;
  readonly model: Model;
  /** All deliveries that a process has received, the first one first. */
  readonly deliveries: Tracked[];
  /** The deliveries of receives whose answers were lost. */
  adrift: { readonly client: number; readonly delivery: Tracked }[];
  /** The cancels whose answers were lost and that were carried out, by process and id. */
  readonly cancelled: Set<string>;

  constructor(
    rules: Rules,
    model: Model = new Model(),
    deliveries: Tracked[] = [],
    adrift: { readonly client: number; readonly delivery: Tracked }[] = [],
    cancelled: Set<string> = new Set(),
  ) {
    this.rules = rules;
    this.model = model;
    this.deliveries = deliveries;
    this.adrift = adrift;
    this.cancelled = cancelled;
  }

  copy(): World {
    const others = {
      deliveries: this.deliveries,
      adrift: this.adrift,
      cancelled: this.cancelled,
    };
    const [model, { deliveries, adrift, cancelled }] = this.model.copyWith(others);
    return new World(this.rules, model, deliveries, adrift, cancelled);
  }

  /** Worlds with the same text behave the same. */
  get text(): string {
    const { messages, dead, paused, remembered } = this.model;
    const at = (message: ModelMessage) => messages.indexOf(message);
    return JSON.stringify([
      messages.map((it) => ({ ...it, holder: undefined, sentAt: 0 })),
      dead.map(({ serial, checkpoint }) => [serial, checkpoint]),
      paused,
      [...remembered.keys()].sort(),
      this.deliveries.map((it) => {
        const { message, final, unanswered, applied, letterStored } = it;
        const held = message.holder === it;
        return [at(message), held, final, unanswered, applied, letterStored];
      }),
      this.adrift.map(({ client, delivery }) => {
        return [client, at(delivery.message), delivery.message.holder === delivery];
      }),
      [...this.cancelled],
    ]);
  }

  /** Carries out a call in this world. */
  perform(client: number, call: Call, seen: Answer | undefined): Outcome[] {
    const model = this.model;
    const answers = (answer: unknown) => [{ world: this, answer }];
    switch (call.do) {
      case "send":
      case "sendMany":
        return answers(this.send(call.messages, seen && "ids" in seen ? seen.ids : undefined));
      case "receive": {
        const received = seen && "received" in seen ? seen.received : [];
        this.undoReceives(client);
        const taken = model.deliver(call.max, LONG_MS, received.map(({ serial }) => serial));
        this.deliveries.push(...taken);
        this.learn(received);
        return answers(taken.map(({ message }) => seenIn(message)));
      }
      case "acknowledgeMany":
      case "releaseMany": {
        const how = call.do === "releaseMany" ? "release" : "acknowledge";
        let outcomes: Outcome[] = answers([]);
        for (const delivery of call.deliveries) {
          outcomes = outcomes.flatMap(({ world, answer }) => {
            return world.#settle(delivery, how, 0).map((it) => {
              return { world: it.world, answer: [...answer as boolean[], it.answer === "done"] };
            });
          });
        }
        return outcomes;
      }
      case "redrive":
        return answers(model.redrive(call.max));
      case "redriveById":
        return answers(model.redrive(1, (letter) => letter.id === call.id));
      case "cancel":
      case "deleteLetter": {
        const repeats = this.cancelled.delete(`${client} ${call.do} ${call.id}`);
        // A server may tell that an earlier call did it, or not remember that call.
        const known = repeats ? [{ world: this.copy(), answer: true }] : [];
        const done = call.do === "cancel"
          ? model.cancel(call.id) !== undefined
          : model.deleteLetter(call.id);
        return [...answers(done), ...known];
      }
      case "deliverNow":
        return answers(model.deliverNow(call.id));
      case "get": {
        const message = model.messages.find((it) => it.id === call.id);
        return answers(message && { ...seenIn(message), state: model.stateOf(message) });
      }
      case "pause":
      case "resume":
        model.paused = call.do === "pause";
        return answers(undefined);
      case "purge":
        return answers(model.purge());
      case "look":
        if (seen && "count" in seen) this.learn(seen.messages ?? []);
        return answers(this.#look(seen as Look | undefined));
      default:
        return this.#settle(call.delivery, call.do, call.ms);
    }
  }

  /** Stores messages. Returns for each whether it was stored. */
  send(messages: readonly Sent[], ids: readonly string[] | undefined): boolean[] {
    return messages.map(({ serial, id, options }, i) => {
      if (!this.rules.dedup) return this.model.send(serial, this.#newId(serial), options);
      return this.model.send(serial, ids?.[i] ?? id ?? `unknown ${serial}`, options);
    });
  }

  /** Returns an id for one more copy of a message. */
  #newId(serial: number): string {
    const ids = this.model.messages.map(({ id }) => id);
    for (let n = 0;; n++) if (!ids.includes(`${serial}/${n}`)) return `${serial}/${n}`;
  }

  #settle(index: number, how: Settling, ms: number): Outcome[] {
    const { remembers, restoresAttempts } = this.rules;
    const delivery = this.deliveries[index]!;
    const model = this.model;
    const counts = !restoresAttempts;
    const acts: Readonly<Record<Settling, () => Result>> = {
      acknowledge: () => model.acknowledge(delivery),
      nack: () => model.nack(delivery, ms, true),
      nackFree: () => model.nack(delivery, ms, counts),
      release: () => counts ? model.nack(delivery, 0, true) : model.release(delivery),
      deadLetter: () => model.deadLetter(delivery),
      extend: () => model.extend(delivery, ms),
      save: () => model.checkpoint(delivery, ms),
    };
    const { unanswered, applied } = delivery;
    const isRefused = remembers === "removals" &&
      (unanswered === "nack" || unanswered === "release" || unanswered === "several");
    const refused = isRefused ? [{ world: this.copy(), answer: "ReceiptHandleExpiredError" }] : [];
    const answer = acts[how]();
    if (delivery.letterStored && how === "deadLetter" && answer === "done") {
      // The letter is stored already. A server without dedup may store it again.
      const again = this.rules.dedup ? [] : [{ world: this.copy(), answer }];
      model.dead.pop();
      return [{ world: this, answer }, ...again];
    }
    const kind = SETTLEMENTS[how];
    const plain = { world: this, answer };
    const isRemoval = kind === "acknowledge" || kind === "deadLetter";
    const isRemembered = remembers === "all" || remembers === "removals" && isRemoval;
    if (answer !== "ReceiptHandleExpiredError" || kind === undefined || !isRemembered) {
      return [plain, ...refused];
    }
    if (unanswered === kind && applied) {
      delivery.final = true;
      return [{ world: this, answer: "done" }];
    }
    // Two different lost settlements, or one of a message that another call has removed since.
    const isGone = !model.messages.includes(delivery.message);
    if (unanswered !== "several" && !(unanswered === kind && isGone)) return [plain];
    const told = this.copy();
    told.deliveries[index]!.final = true;
    return [plain, { world: told, answer: "done" }, ...refused];
  }

  /** Makes the messages of lost receives of a process available, where its engine does so. */
  undoReceives(client: number): void {
    if (!this.rules.undoesReceives) return;
    for (const { delivery } of this.adrift.filter((it) => it.client === client)) {
      if (delivery.message.holder !== delivery) continue;
      delivery.message.holder = undefined;
      delivery.message.deliveryCount--;
      delivery.message.visibleAt = this.model.now;
    }
    this.adrift = this.adrift.filter((it) => it.client !== client);
  }

  /** Delivers what an engine without an order has delivered. */
  takeAny(max: number, seen: readonly Seen[]): Outcome[] {
    const certain = this.visible().filter(({ maybe }) => maybe === undefined);
    // The first delivery of a delayed message may take the place of another one.
    const areDelayed = this.model.stats().delayed > 0;
    if (!areDelayed && seen.length < Math.min(max, certain.length)) return [];
    for (const { serial, deliveryCount } of seen) {
      const found = this.visible().find((it) => {
        const extra = deliveryCount - 1 - it.deliveryCount;
        return it.serial === serial && extra >= 0 && extra <= (it.maybe ?? 0);
      });
      if (found === undefined) return [];
      found.deliveryCount = deliveryCount - 1;
      delete found.maybe;
      this.deliveries.push(this.#take(found));
    }
    return [{ world: this, answer: seen }];
  }

  /** Returns the messages that a receive may deliver, but for their order and keys. */
  visible(): Uncertain[] {
    const { messages, now, paused } = this.model;
    return paused ? [] : messages.filter(({ visibleAt }) => visibleAt <= now);
  }

  #take(message: ModelMessage): Tracked {
    message.deliveryCount++;
    message.wasDelivered = true;
    message.visibleAt = this.model.now + LONG_MS;
    return message.holder = { message, final: false };
  }

  /** Returns what a look must show, as far as the engine has shown it. */
  #look(seen: Look | undefined): Look {
    const { messages, dead } = this.model;
    const { oldestWaitingMs: _, ...states } = this.model.stats();
    const shown = messages.map((it) => {
      return { ...seenIn(it), id: "", state: this.model.stateOf(it) };
    });
    return {
      count: messages.length,
      messages: seen?.messages && shown,
      letters: seen?.letters && dead.map(({ serial }) => serial),
      letterCount: dead.length,
      states: seen?.states && states,
    };
  }

  /** Learns the ids that the mailbox chose. */
  learn(seen: readonly Seen[]): void {
    for (const { serial, id } of seen) {
      const message = this.model.messages.find((it) => it.serial === serial);
      if (message !== undefined) message.id = id;
    }
  }
}

function seenIn({ serial, deliveryCount, checkpoint }: ModelMessage): Omit<Seen, "id"> {
  return { serial, deliveryCount, checkpoint };
}
