import { assert, assertEquals } from "@std/assert";
import { type Clock, systemClock } from "../../src/clock.ts";
import { type Codec, identityCodec } from "../../src/mailbox/codec.ts";
import { redrive } from "../../src/loops/redrive.ts";
import type { Engine } from "../../src/mailbox/engine.ts";
import { EngineMailbox } from "../../src/mailbox/engine_mailbox.ts";
import { isMailboxError } from "../../src/mailbox/errors.ts";
import type { Message, SendOptions } from "../../src/mailbox/mailbox.ts";
import { silentLog } from "../../src/log.ts";
import type { ById, Command, Sending, Settling } from "./_commands.ts";
import { ManualClock } from "./_manual_clock.ts";
import { Model, type ModelDelivery, type Result } from "./_model.ts";

/** Options of {@linkcode History}. */
export interface HistoryOptions<B> {
  /** Bodies are numbers. @default {identityCodec} */
  readonly codec?: Codec<B>;
  /** The name of the queue. @default {orders} */
  readonly name?: string;
  /**
   * False for an engine with a clock of its own: then no time may pass, and cancels may be heard later.
   *
   * @default {true}
   */
  readonly manualClock?: boolean;
}

/** Runs a history on a mailbox and on the model, and compares them after every command. */
export class History<B = unknown> {
  readonly #clock: ManualClock | undefined;
  readonly #model = new Model();
  readonly #mailbox: EngineMailbox<number, unknown, B>;
  /** All deliveries so far, the newest first. */
  readonly #deliveries: { readonly real: Message<number>; readonly model: ModelDelivery }[] = [];
  /** All ids so far, the newest first. */
  readonly #ids: string[] = [];
  /** What the engine delivered during the last receive of the mailbox, as serial numbers, for each call. */
  #batches: number[][] = [];
  /** The ids of messages that were cancelled in flight, according to the engine and to the model. */
  readonly #heard: string[] = [];
  readonly #cancelled: string[] = [];
  #lastSerial = 0;

  constructor(makeEngine: (clock: Clock) => Engine<B>, options: HistoryOptions<B> = {}) {
    const { codec = identityCodec as Codec<B>, name = "orders", manualClock = true } = options;
    this.#clock = manualClock ? new ManualClock() : undefined;
    const clock = this.#clock ?? systemClock;
    const engine = makeEngine(clock);
    this.#record(engine, codec);
    this.#mailbox = new EngineMailbox(name, engine, codec, { clock, log: silentLog });
    if (manualClock) this.#mailbox.onCancel((id) => this.#heard.push(id));
  }

  async run(commands: readonly Command[]): Promise<void> {
    for (const command of commands) {
      await this.#do(command);
      await this.#compare();
    }
    await this.#finish();
  }

  /** When no lease, delay or pause is left, every message can be received, key by key. */
  async #finish(): Promise<void> {
    await this.#do({ do: "resume" });
    await this.#do({ do: "pass", ms: 1_000 });
    if (this.#clock === undefined) {
      for (let pick = 0; pick < this.#deliveries.length; pick++) {
        if (!this.#deliveries[pick]!.model.final) await this.#settle("acknowledge", pick, 0);
      }
      const delayed = this.#model.messages.filter((it) => this.#model.stateOf(it) === "delayed");
      for (const { id } of delayed) await this.#cancel(id!);
    }
    for (let left = -1; left !== this.#model.messages.length;) {
      left = this.#model.messages.length;
      const received = await this.#receive(1_000, 600_000);
      for (let pick = 0; pick < received; pick++) await this.#settle("acknowledge", pick, 0);
      await this.#compare();
    }
    same(await this.#mailbox.approximateCount(), 0, "every message can be received in the end");
  }

  async #do(command: Command): Promise<void> {
    const { lookup, pause } = this.#mailbox.capabilities;
    switch (command.do) {
      case "send":
        return await this.#send(command.sending);
      case "sendMany":
        return await this.#sendMany(command.sendings);
      case "receive":
        return void await this.#receive(command.count, command.ms);
      case "redrive":
        return same(
          await redrive(this.#mailbox, { maxMessages: command.count }),
          this.#model.redrive(command.count),
        );
      case "bounce":
        // A worker that is stopped repeatedly does this.
        for (let i = 0; i < command.count; i++) {
          if (await this.#receive(1, command.ms) > 0) await this.#settle("release", 0, 0);
        }
        return;
      case "get":
      case "cancel":
      case "deliverNow":
      case "redriveById":
      case "deleteLetter": {
        const id = this.#ids[command.pick];
        if (id !== undefined && lookup) await this.#doById(command.do, id);
        return;
      }
      case "pause":
      case "resume":
        if (!pause) return;
        await this.#mailbox[command.do]();
        this.#model.paused = command.do === "pause";
        return;
      case "purge":
        return same(await this.#mailbox.purge(), this.#model.purge());
      case "pass":
        if (this.#clock !== undefined) this.#clock.elapsed = this.#model.now += command.ms;
        return;
      case "acknowledgeMany":
      case "releaseMany":
        return await this.#settleMany(command.do, command.picks);
      default:
        return await this.#settle(command.do, command.pick, command.ms);
    }
  }

  async #send(sending: Sending): Promise<void> {
    const serial = ++this.#lastSerial;
    const options = this.#options(sending);
    const sent = await this.#mailbox.send(serial, options);
    this.#ids.unshift(sent.id);
    same(sent.stored, this.#model.send(serial, sent.id, options), "a duplicate is reported");
  }

  async #sendMany(sendings: readonly Sending[]): Promise<void> {
    const serials = sendings.map(() => ++this.#lastSerial);
    const options = sendings.map((sending) => this.#options(sending));
    const sent = await this.#mailbox.sendMany(serials, (_, i) => options[i]!);
    this.#ids.unshift(...sent.map(({ id }) => id));
    same(
      sent.map(({ stored }) => stored),
      serials.map((serial, i) => this.#model.send(serial, sent[i]!.id, options[i]!)),
      "each duplicate is reported",
    );
  }

  /** Returns the options of a send without those that the engine lacks the capability for. */
  #options({ delayMs, id, dedupMs, key, priority, expiresInMs, drop }: Sending): SendOptions {
    const { keys, priorities, dedupWindow } = this.#mailbox.capabilities;
    return {
      delayMs,
      ...(id !== null && { id: `id-${id}` }),
      ...(id !== null && dedupMs !== null && dedupWindow && { dedupMs }),
      ...(key !== null && keys && { key: `key-${key}` }),
      ...(priorities && { priority }),
      ...(expiresInMs !== null && { expiresInMs, onExpired: drop ? "drop" : "deadLetter" }),
    };
  }

  /** Returns the number of received messages. */
  async #receive(maxMessages: number, visibilityTimeoutMs: number): Promise<number> {
    this.#batches = [];
    const real = await this.#mailbox.receive({ maxMessages, visibilityTimeoutMs });
    let model: ModelDelivery[] = [];
    let removed = false;
    for (const batch of this.#batches) {
      same(model.length, 0, "the mailbox asks again only when all messages have expired");
      const deliveries = this.#model.deliver(maxMessages, visibilityTimeoutMs, batch);
      same(
        batch,
        deliveries.map(({ message }) => message.serial),
        "the first of each key are delivered, by priority, oldest first",
      );
      const { length } = this.#model.messages;
      model = deliveries.filter((delivery) => !this.#model.expire(delivery));
      removed = this.#model.messages.length < length;
    }
    assert(model.length > 0 || !removed, "the mailbox asks again when all messages have expired");
    for (const [i, { message }] of model.entries()) message.id ??= real[i]?.id;
    same(
      real.map(({ body, id, deliveryCount, checkpoint, key, priority = 0 }) => {
        return [body, id, deliveryCount, checkpoint, key, priority];
      }),
      model.map(({ message: { serial, id, deliveryCount, checkpoint, options } }) => {
        return [serial, id, deliveryCount, checkpoint, options.key, options.priority ?? 0];
      }),
      "no expired message is received, and every other one is",
    );
    for (const [i, message] of real.entries()) {
      const { receiptHandle } = message;
      assert(
        this.#deliveries.every((it) => it.real.receiptHandle !== receiptHandle),
        "a new receipt handle",
      );
      this.#deliveries.unshift({ real: message, model: model[i]! });
    }
    return real.length;
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

  async #doById(what: ById, id: string): Promise<void> {
    switch (what) {
      case "get":
        return await this.#get(id);
      case "cancel":
        return await this.#cancel(id);
      case "deliverNow":
        return same(await this.#mailbox.deliverNow(id), this.#model.deliverNow(id), what);
      case "redriveById":
        return same(
          await redrive(this.#mailbox, { ids: [id] }),
          this.#model.redrive(1, (it) => it.id === id),
          what,
        );
      case "deleteLetter":
        return same(await this.#mailbox.deadLetters.cancel(id), this.#model.deleteLetter(id), what);
    }
  }

  async #cancel(id: string): Promise<void> {
    const state = this.#model.cancel(id);
    if (state === "inFlight") this.#cancelled.push(id);
    same(await this.#mailbox.cancel(id), state !== undefined, "cancel tells what it did");
  }

  async #get(id: string): Promise<void> {
    const real = await this.#mailbox.get(id);
    const model = this.#model.messages.find((it) => it.id === id);
    same(
      real && [real.body, real.state, real.deliveryCount, real.checkpoint],
      model && [model.serial, this.#model.stateOf(model), model.deliveryCount, model.checkpoint],
      "get finds a message in any state",
    );
  }

  /** Asserts that every message is in exactly one place, and in the right one. */
  async #compare(): Promise<void> {
    const model = this.#model;
    const stored = await this.#mailbox.peek(1_000);
    const dead = await this.#mailbox.deadLetters.peek!(1_000);
    same(await this.#mailbox.approximateCount(), stored.length);
    for (const [i, message] of model.messages.entries()) {
      message.id ??= stored[i]?.id;
      if (message.id !== undefined && !this.#ids.includes(message.id)) {
        this.#ids.unshift(message.id);
      }
    }
    same(
      stored.map(({ body, id, deliveryCount }) => [body, id, deliveryCount]),
      model.messages.map(({ serial, id, deliveryCount }) => [serial, id, deliveryCount]),
    );
    for (const [i, { state }] of stored.entries()) {
      if (state !== undefined) same(state, model.stateOf(model.messages[i]!), "the state of peek");
    }
    const letters = dead.map(({ body }) => body.body!);
    same(letters, model.dead.map(({ serial }) => serial));
    if (this.#mailbox.capabilities.exactStats) await this.#compareStats();
    if (this.#clock !== undefined) same(this.#heard, this.#cancelled, "cancels are heard");
    const places = [
      ...stored.map(({ body }) => body),
      ...letters,
      ...model.acknowledged,
      ...model.purged,
      ...model.cancelled,
      ...model.dropped,
    ];
    same(places.length, model.confirmed.size, "no message is lost, none is in two places");
    same(
      places.sort(byNumber),
      [...model.confirmed].sort(byNumber),
      "every message was sent",
    );
  }

  /** Compares the counts that the engine can tell. */
  async #compareStats(): Promise<void> {
    const real = await this.#mailbox.stats();
    const { oldestWaitingMs, ...counts } = this.#model.stats();
    for (const [name, count] of Object.entries(counts)) {
      same(real[name as keyof typeof counts] ?? count, count, `stats: ${name}`);
    }
    if (this.#clock === undefined) return;
    same(real.oldestWaitingMs, oldestWaitingMs, "stats: oldestWaitingMs");
  }

  /** Records the serial numbers of what the engine delivers. */
  #record(engine: Engine<B>, codec: Codec<B>): void {
    const receive = engine.receive.bind(engine);
    engine.receive = async (max, visibilityMs) => {
      const received = await receive(max, visibilityMs);
      this.#batches.push(received.deliveries.map(({ body }) => codec.decode(body) as number));
      return received;
    };
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
