import { assert, assertEquals } from "@std/assert";
import { identityCodec } from "../../src/mailbox/codec.ts";
import { redrive } from "../../src/loops/redrive.ts";
import type { Engine } from "../../src/mailbox/engine.ts";
import { EngineMailbox } from "../../src/mailbox/engine_mailbox.ts";
import { isMailboxError } from "../../src/mailbox/errors.ts";
import type { Message } from "../../src/mailbox/mailbox.ts";
import type { Command, Settling } from "./_commands.ts";
import { ManualClock } from "./_manual_clock.ts";
import { Model, type ModelDelivery, type Result } from "./_model.ts";

/** Runs a history on a mailbox and on the model, and compares them after every command. */
export class History {
  readonly #clock = new ManualClock();
  readonly #model = new Model();
  readonly #mailbox: EngineMailbox<number, unknown, unknown>;
  /** All deliveries so far, the newest first. */
  readonly #deliveries: { readonly real: Message<number>; readonly model: ModelDelivery }[] = [];
  #lastSerial = 0;

  constructor(makeEngine: (clock: ManualClock) => Engine<unknown>) {
    const clock = this.#clock;
    this.#mailbox = new EngineMailbox("orders", makeEngine(clock), identityCodec, { clock });
  }

  async run(commands: readonly Command[]): Promise<void> {
    for (const command of commands) {
      await this.#do(command);
      await this.#compare();
    }
    // When all leases and delays have ended, every message can be received.
    await this.#do({ do: "pass", ms: 1_000 });
    await this.#receive(1_000, 1_000);
  }

  async #do(command: Command): Promise<void> {
    switch (command.do) {
      case "send":
        return await this.#send(command.ms, command.key);
      case "sendMany":
        return await this.#sendMany(command.count, command.ms);
      case "receive":
        return await this.#receive(command.count, command.ms);
      case "redrive":
        return same(
          await redrive(this.#mailbox, { maxMessages: command.count }),
          this.#model.redrive(command.count),
        );
      case "bounce":
        // A worker that is stopped repeatedly does this.
        for (let i = 0; i < command.count; i++) {
          await this.#receive(1, 5);
          await this.#settle("release", 0, 0);
        }
        return;
      case "purge":
        return same(await this.#mailbox.purge(), this.#model.purge());
      case "pass":
        this.#clock.elapsed = this.#model.now += command.ms;
        return;
      case "acknowledgeMany":
      case "releaseMany":
        return await this.#settleMany(command.do, command.picks);
      default:
        return await this.#settle(command.do, command.pick, command.ms);
    }
  }

  async #send(delayMs: number, key: number | null): Promise<void> {
    const serial = ++this.#lastSerial;
    const id = key === null ? undefined : `key-${key}`;
    const sent = await this.#mailbox.send(
      serial,
      { delayMs, ...(id === undefined ? {} : { id }) },
    );
    same(sent.stored, this.#model.send(serial, sent.id, delayMs), "a duplicate is reported");
  }

  async #sendMany(count: number, delayMs: number): Promise<void> {
    const serials = Array.from({ length: count }, () => ++this.#lastSerial);
    const sent = await this.#mailbox.sendMany(serials, { delayMs });
    for (const [i, serial] of serials.entries()) this.#model.send(serial, sent[i]!.id, delayMs);
  }

  async #receive(maxMessages: number, visibilityTimeoutMs: number): Promise<void> {
    const real = await this.#mailbox.receive({ maxMessages, visibilityTimeoutMs });
    const model = this.#model.receive(maxMessages, visibilityTimeoutMs);
    for (const [i, { message }] of model.entries()) message.id ??= real[i]?.id;
    same(
      real.map(({ body, id, deliveryCount, checkpoint }) => [body, id, deliveryCount, checkpoint]),
      model.map(({ message: { serial, id, deliveryCount, checkpoint } }) => {
        return [serial, id, deliveryCount, checkpoint];
      }),
      "the oldest visible messages are received, in order",
    );
    for (const [i, message] of real.entries()) {
      const { receiptHandle } = message;
      assert(
        this.#deliveries.every((it) => it.real.receiptHandle !== receiptHandle),
        "a new receipt handle",
      );
      this.#deliveries.unshift({ real: message, model: model[i]! });
    }
  }

  async #settle(what: Settling, pick: number, ms: number): Promise<void> {
    const delivery = this.#deliveries[pick];
    if (delivery === undefined) return;
    const { real, model } = delivery;
    const acts: Record<Settling, readonly [() => Promise<void>, () => Result]> = {
      acknowledge: [() => real.acknowledge(), () => this.#model.acknowledge(model)],
      nack: [
        () => real.nack({ delayMs: ms }),
        () => this.#model.nack(model, ms, true),
      ],
      nackFree: [
        () => real.nack({ delayMs: ms, countsAttempt: false }),
        () => this.#model.nack(model, ms, false),
      ],
      release: [() => real.release(), () => this.#model.release(model)],
      deadLetter: [() => real.deadLetter({ reason: "test" }), () => this.#model.deadLetter(model)],
      extend: [() => real.extendVisibility(ms), () => this.#model.extend(model, ms)],
      save: [() => real.saveCheckpoint(ms), () => this.#model.checkpoint(model, ms)],
    };
    const [act, expected] = acts[what];
    same(await resultOf(act()), expected(), what);
    same(real.finalized, model.final, `finalized after ${what}`);
  }

  async #settleMany(
    what: "acknowledgeMany" | "releaseMany",
    picks: readonly number[],
  ): Promise<void> {
    const open = picks.flatMap((pick) => this.#deliveries[pick] ?? [])
      .filter(({ model }) => !model.final);
    const real = await this.#mailbox[what](open.map((delivery) => delivery.real));
    const single = what === "releaseMany" ? "release" : "acknowledge";
    same(real, open.map(({ model }) => this.#model[single](model) === "done"), what);
  }

  /** Asserts that every message is in exactly one place, and in the right one. */
  async #compare(): Promise<void> {
    const model = this.#model;
    const stored = await this.#mailbox.peek(1_000);
    const dead = await this.#mailbox.deadLetters.peek!(1_000);
    same(await this.#mailbox.approximateCount(), stored.length);
    same(
      stored.map(({ body, deliveryCount }) => [body, deliveryCount]),
      model.messages.map(({ serial, deliveryCount }) => [serial, deliveryCount]),
    );
    const letters = dead.map(({ body }) => body.body!);
    same(letters, model.dead.map(({ serial }) => serial));
    const places = [
      ...stored.map(({ body }) => body),
      ...letters,
      ...model.acknowledged,
      ...model.purged,
    ];
    same(places.length, model.confirmed.size, "no message is lost, none is in two places");
    same(
      places.sort(byNumber),
      [...model.confirmed].sort(byNumber),
      "every message was sent",
    );
  }
}

function byNumber(a: number, b: number): number {
  return a - b;
}

/** Calls the slow assertion only when the values differ. */
function same(actual: unknown, expected: unknown, message?: string): void {
  if (JSON.stringify(actual) !== JSON.stringify(expected)) assertEquals(actual, expected, message);
}

async function resultOf(act: Promise<void>): Promise<Result> {
  try {
    await act;
    return "done";
  } catch (error) {
    assert(isMailboxError(error), String(error));
    return error.name as Result;
  }
}
