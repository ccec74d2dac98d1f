// One possible state of a queue, and what calls do to it.

import { Model, type ModelDelivery, type ModelMessage, type Result } from "../mailbox/_model.ts";
import type { Settling } from "../mailbox/_commands.ts";
import type { Answer, Call, Look, Seen, Sent } from "./_calls.ts";

/** What an engine keeps to. A rule that it cannot keep is false, and named in its site with the reason. */
export interface Rules {
  /** Messages arrive by priority, oldest first. Otherwise any visible ones arrive. */
  readonly ordered: boolean;
  /** Each call happens as a whole or not at all. Otherwise a part of it may have happened. */
  readonly atomic: boolean;
  /**
   * Which repeated settlements return what the first one did: all, or acknowledgements and dead letters. A
   * delivery whose other settlement was lost may then be refused from then on.
   */
  readonly remembers: "all" | "removals" | "none";
  /** The messages of a lost receive are available again, without an attempt, at the next receive. */
  readonly undoesReceives: boolean;
  /** A stored id is refused. */
  readonly dedup: boolean;
  /** A release costs no attempt. */
  readonly restoresAttempts: boolean;
}

/** The settlements that end a delivery. The result of one says nothing about another. */
type Settlement = "acknowledge" | "nack" | "release" | "deadLetter";

/** A delivery, with what is uncertain about it. */
interface Tracked extends ModelDelivery {
  /** The settlement whose answer was lost, or that several different ones were. */
  unanswered?: Settlement | "several";
  /** True in a world in which the server carried out the unanswered settlement. */
  applied?: boolean;
  /** True when only the first half of a dead-lettering happened. */
  letterStored?: boolean;
}

/** A possible result of a call: what it answers, and the world after it. */
export interface Outcome {
  readonly world: World;
  readonly answer: unknown;
}

/** Longer than any test. */
export const LONG_MS = 600_000;

const SETTLEMENTS: Readonly<Partial<Record<Settling, Settlement>>> = {
  acknowledge: "acknowledge",
  nack: "nack",
  nackFree: "nack",
  release: "release",
  deadLetter: "deadLetter",
};

/** One possible state of a queue. Calls change it; copy it first. */
export class World {
  readonly #rules: Rules;
  readonly #model: Model;
  /** All deliveries that a process has received, the first one first. */
  readonly #deliveries: Tracked[];
  /** The deliveries of receives whose answers were lost. */
  #adrift: { readonly client: number; readonly delivery: Tracked }[];
  /** The cancels whose answers were lost and that were carried out, by process and id. */
  readonly #cancelled: Set<string>;

  constructor(
    rules: Rules,
    model: Model = new Model(),
    deliveries: Tracked[] = [],
    adrift: { readonly client: number; readonly delivery: Tracked }[] = [],
    cancelled: Set<string> = new Set(),
  ) {
    this.#rules = rules;
    this.#model = model;
    this.#deliveries = deliveries;
    this.#adrift = adrift;
    this.#cancelled = cancelled;
  }

  copy(): World {
    const others = {
      deliveries: this.#deliveries,
      adrift: this.#adrift,
      cancelled: this.#cancelled,
    };
    const [model, { deliveries, adrift, cancelled }] = this.#model.copyWith(others);
    return new World(this.#rules, model, deliveries, adrift, cancelled);
  }

  /** Worlds with the same text behave the same. */
  get text(): string {
    const { messages, dead, paused } = this.#model;
    const at = (message: ModelMessage) => messages.indexOf(message);
    return JSON.stringify([
      messages.map((it) => ({ ...it, holder: undefined, sentAt: 0 })),
      dead.map(({ serial, checkpoint }) => [serial, checkpoint]),
      paused,
      this.#deliveries.map((it) => {
        const { message, final, unanswered, applied, letterStored } = it;
        const held = message.holder === it;
        return [at(message), held, final, unanswered, applied, letterStored];
      }),
      this.#adrift.map(({ client, delivery }) => {
        return [client, at(delivery.message), delivery.message.holder === delivery];
      }),
      [...this.#cancelled],
    ]);
  }

  /**
   * Returns what an answered call can have done, with the answers that fit. `seen` decides what the contract
   * leaves open. `repeats` is true when the runtime may have repeated a disturbed request by itself.
   */
  done(client: number, call: Call, seen: Answer, repeats: boolean): Outcome[] {
    const befores = repeats ? [this, ...this.lost(client, call)] : [this];
    return befores.flatMap((before) => {
      const world = before.copy();
      if (call.do !== "receive" || this.#rules.ordered) return world.#perform(client, call, seen);
      return world.#takeAny(call.max, "received" in seen ? seen.received : []);
    });
  }

  /** Returns what a call whose answer was lost can have done. */
  lost(client: number, call: Call): World[] {
    const without = this.copy();
    without.#markLost(call, false);
    const { atomic } = this.#rules;
    switch (call.do) {
      case "receive":
        return this.#loseReceive(client, call.max);
      case "sendMany":
        if (atomic) break;
        return subsets(call.messages).map((messages) => {
          const world = this.copy();
          world.#send(messages, undefined);
          return world;
        });
      case "acknowledgeMany":
      case "releaseMany":
        if (atomic) break;
        return subsets(call.deliveries).flatMap((deliveries) => {
          return this.copy().#apply(client, { ...call, deliveries }).map((world) => {
            world.#markLost(call, false);
            return world;
          });
        });
      case "deadLetter":
        if (atomic) break;
        return [without, this.#withLetterOnly(call.delivery), ...this.copy().#apply(client, call)];
    }
    return [without, ...this.copy().#apply(client, call)];
  }

  /** Carries out a call without telling its process. */
  #apply(client: number, call: Call): World[] {
    const deletes = call.do === "cancel" || call.do === "deleteLetter";
    const worlds = this.#perform(client, call, undefined).map(({ world, answer }) => {
      world.#markLost(call, true);
      if (deletes && answer === true) world.#cancelled.add(`${client} ${call.do} ${call.id}`);
      return world;
    });
    return worlds;
  }

  /** Carries out a call in this world. */
  #perform(client: number, call: Call, seen: Answer | undefined): Outcome[] {
    const model = this.#model;
    const answers = (answer: unknown) => [{ world: this, answer }];
    switch (call.do) {
      case "send":
      case "sendMany":
        return answers(this.#send(call.messages, seen && "ids" in seen ? seen.ids : undefined));
      case "receive": {
        const received = seen && "received" in seen ? seen.received : [];
        this.#undoReceives(client);
        const taken = model.deliver(call.max, LONG_MS, received.map(({ serial }) => serial));
        this.#deliveries.push(...taken);
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
        const repeats = this.#cancelled.delete(`${client} ${call.do} ${call.id}`);
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

  #send(messages: readonly Sent[], ids: readonly string[] | undefined): boolean[] {
    return messages.map(({ serial, id, options }, i) => {
      if (!this.#rules.dedup) return this.#model.send(serial, this.#newId(serial), options);
      return this.#model.send(serial, ids?.[i] ?? id ?? `unknown ${serial}`, options);
    });
  }

  /** Returns an id for one more copy of a message. */
  #newId(serial: number): string {
    const ids = this.#model.messages.map(({ id }) => id);
    for (let n = 0;; n++) if (!ids.includes(`${serial}/${n}`)) return `${serial}/${n}`;
  }

  #settle(index: number, how: Settling, ms: number): Outcome[] {
    const { remembers, restoresAttempts } = this.#rules;
    const delivery = this.#deliveries[index]!;
    const model = this.#model;
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
      const again = this.#rules.dedup ? [] : [{ world: this.copy(), answer }];
      model.dead.pop();
      return [{ world: this, answer }, ...again];
    }
    const kind = SETTLEMENTS[how];
    const plain = { world: this, answer };
    if (answer !== "ReceiptHandleExpiredError" || kind === undefined || remembers === "none") {
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
    told.#deliveries[index]!.final = true;
    return [plain, { world: told, answer: "done" }, ...refused];
  }

  /** Notes for the settlements of a call that their answer was lost, and whether they happened. */
  #markLost(call: Call, applied: boolean): void {
    const [kind, indexes] = settlementsOf(call);
    if (kind === undefined) return;
    for (const index of indexes) {
      const delivery = this.#deliveries[index]!;
      const { unanswered = kind } = delivery;
      delivery.unanswered = unanswered === kind ? kind : "several";
      if (!applied || !delivery.final) continue;
      delivery.final = false;
      delivery.applied = true;
    }
  }

  /** The first half of a dead-lettering in two steps: the message is still there. */
  #withLetterOnly(index: number): World {
    const world = this.copy();
    const delivery = world.#deliveries[index]!;
    const { message } = delivery;
    if (message.holder !== delivery || delivery.letterStored) return world;
    delivery.letterStored = true;
    world.#model.dead.push(message);
    return world;
  }

  #undoReceives(client: number): void {
    if (!this.#rules.undoesReceives) return;
    for (const { delivery } of this.#adrift.filter((it) => it.client === client)) {
      if (delivery.message.holder !== delivery) continue;
      delivery.message.holder = undefined;
      delivery.message.deliveryCount--;
      delivery.message.visibleAt = this.#model.now;
    }
    this.#adrift = this.#adrift.filter((it) => it.client !== client);
  }

  #loseReceive(client: number, max: number): World[] {
    const without = this.copy();
    const undone = this.copy();
    undone.#undoReceives(client);
    const visible = undone.#visible();
    if (!this.#rules.ordered) {
      return subsets(visible).filter(({ length }) => length <= max).map((some) => {
        const world = this.copy();
        for (const { number } of some) world.#take(number);
        return world;
      });
    }
    // The contract leaves open which message of a key is the first when some of them were delayed.
    const choices = [[], ...visible.map(({ serial }) => [serial])];
    const leased = choices.map((taken) => {
      const world = undone.copy();
      for (const delivery of world.#model.deliver(max, LONG_MS, taken)) {
        world.#adrift.push({ client, delivery });
      }
      return world;
    });
    return [without, undone, ...leased];
  }

  /** Delivers what an engine without an order has delivered. */
  #takeAny(max: number, seen: readonly Seen[]): Outcome[] {
    if (seen.length !== Math.min(max, this.#visible().length)) return [];
    let worlds: World[] = [this];
    for (const { serial, deliveryCount } of seen) {
      worlds = worlds.flatMap((before) => {
        const found = before.#visible().find((it) => {
          return it.serial === serial && it.deliveryCount === deliveryCount - 1;
        });
        if (found === undefined) return [];
        before.#deliveries.push(before.#take(found.number));
        return [before];
      });
    }
    return worlds.map((world) => ({ world, answer: seen }));
  }

  #visible(): ModelMessage[] {
    const { messages, now, paused } = this.#model;
    return paused ? [] : messages.filter(({ visibleAt }) => visibleAt <= now);
  }

  #take(number: number): Tracked {
    const message = this.#model.messages.find((it) => it.number === number)!;
    message.deliveryCount++;
    message.wasDelivered = true;
    message.visibleAt = this.#model.now + LONG_MS;
    return message.holder = { message, final: false };
  }

  /** Returns what a look must show, as far as the engine has shown it. */
  #look(seen: Look | undefined): Look {
    const { messages, dead } = this.#model;
    const { oldestWaitingMs: _, ...states } = this.#model.stats();
    const shown = messages.map((it) => {
      return { ...seenIn(it), id: "", state: this.#model.stateOf(it) };
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
      const message = this.#model.messages.find((it) => it.serial === serial);
      if (message !== undefined) message.id = id;
    }
  }
}

function seenIn({ serial, deliveryCount, checkpoint }: ModelMessage): Omit<Seen, "id"> {
  return { serial, deliveryCount, checkpoint };
}

/** Returns the kind of settlement of a call, and the deliveries that it settles. */
function settlementsOf(call: Call): [Settlement | undefined, readonly number[]] {
  if (call.do === "acknowledgeMany") return ["acknowledge", call.deliveries];
  if (call.do === "releaseMany") return ["release", call.deliveries];
  return "delivery" in call ? [SETTLEMENTS[call.do], [call.delivery]] : [undefined, []];
}

function subsets<T>(all: readonly T[]): T[][] {
  return all.reduce<T[][]>((some, it) => [...some, ...some.map((set) => [...set, it])], [[]]);
}
