// What calls can have done: one that was answered, and one whose answer was lost.

import type { Answer, Call } from "./_calls.ts";
import { LONG_MS, settlementsOf, type Uncertain } from "./_rules.ts";
import type { Outcome, World } from "./_world.ts";

/**
 * Returns what an answered call can have done, with the answers that fit. `seen` decides what the contract
 * leaves open. `repeats` is true when the runtime may have repeated a disturbed request by itself.
 */
export function outcomesOf(
  world: World,
  client: number,
  call: Call,
  seen: Answer,
  repeats: boolean,
): Outcome[] {
  const befores = repeats ? [world, ...withoutAnswer(world, client, call)] : [world];
  return befores.flatMap((before) => {
    const after = before.copy();
    if (call.do !== "receive" || world.rules.ordered) return after.perform(client, call, seen);
    return after.takeAny(call.max, "received" in seen ? seen.received : []);
  });
}

/** Returns what a call whose answer was lost can have done. */
export function withoutAnswer(world: World, client: number, call: Call): World[] {
  const without = world.copy();
  markLost(without, call, false);
  const { atomic } = world.rules;
  switch (call.do) {
    case "receive":
      return loseReceive(world, client, call.max);
    case "sendMany":
      if (atomic) break;
      return subsets(call.messages).map((messages) => {
        const after = world.copy();
        after.send(messages, undefined);
        return after;
      });
    case "acknowledgeMany":
    case "releaseMany":
      if (atomic) break;
      return subsets(call.deliveries).flatMap((deliveries) => {
        return apply(world.copy(), client, { ...call, deliveries }).map((after) => {
          markLost(after, call, false);
          return after;
        });
      });
    case "deadLetter":
      if (atomic) break;
      return [without, withLetterOnly(world, call.delivery), ...apply(world.copy(), client, call)];
  }
  return [without, ...apply(world.copy(), client, call)];
}

/** Carries out a call without telling its process. */
function apply(world: World, client: number, call: Call): World[] {
  const deletes = call.do === "cancel" || call.do === "deleteLetter";
  return world.perform(client, call, undefined).map(({ world: after, answer }) => {
    markLost(after, call, true);
    if (deletes && answer === true) after.cancelled.add(`${client} ${call.do} ${call.id}`);
    return after;
  });
}

/** Notes for the settlements of a call that their answer was lost, and whether they happened. */
function markLost(world: World, call: Call, applied: boolean): void {
  const [kind, indexes] = settlementsOf(call);
  if (kind === undefined) return;
  for (const index of indexes) {
    const delivery = world.deliveries[index]!;
    const { unanswered = kind } = delivery;
    delivery.unanswered = unanswered === kind ? kind : "several";
    if (!applied || !delivery.final) continue;
    delivery.final = false;
    delivery.applied = true;
  }
}

/** The first half of a dead-lettering in two steps: the message is still there. */
function withLetterOnly(world: World, index: number): World {
  const after = world.copy();
  const delivery = after.deliveries[index]!;
  const { message } = delivery;
  if (message.holder !== delivery || delivery.letterStored) return after;
  delivery.letterStored = true;
  after.model.dead.push(message);
  return after;
}

function loseReceive(world: World, client: number, max: number): World[] {
  const undone = world.copy();
  undone.undoReceives(client);
  const visible = undone.visible();
  if (!world.rules.ordered) {
    // Any of them may be hidden now, and may appear again, with or without an attempt.
    for (const message of visible as Uncertain[]) message.maybe = (message.maybe ?? 0) + 1;
    return [undone];
  }
  // The contract leaves open which message of a key is the first when some of them were delayed.
  const choices = [[], ...visible.map(({ serial }) => [serial])];
  const leased = choices.map((taken) => {
    const after = undone.copy();
    for (const delivery of after.model.deliver(max, LONG_MS, taken)) {
      after.adrift.push({ client, delivery });
    }
    return after;
  });
  return [world.copy(), undone, ...leased];
}

function subsets<T>(all: readonly T[]): T[][] {
  return all.reduce<T[][]>((some, it) => [...some, ...some.map((set) => [...set, it])], [[]]);
}
