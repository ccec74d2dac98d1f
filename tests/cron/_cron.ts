import type { Clock } from "../../src/clock.ts";
import { CronLoop, type CronLoopOptions } from "../../src/cron/mod.ts";
import type { Log } from "../../src/log.ts";
import { jsonCodec } from "../../src/mailbox/codec.ts";
import type { Engine } from "../../src/mailbox/engine.ts";
import { EngineMailbox } from "../../src/mailbox/engine_mailbox.ts";
import { MemoryEngine } from "../../src/mailbox/memory_engine.ts";
import { FaultyEngine } from "../../src/testing/mod.ts";

/** An engine whose queue of records has faults of its own. */
class ReplicaEngine extends FaultyEngine<string> {
  readonly record: FaultyEngine<string>;

  constructor(inner: Engine<string>) {
    super(inner);
    this.record = new FaultyEngine(inner.queue!("jobs.cron"));
  }

  override queue(): Engine<string> {
    return this.record;
  }
}

/** A process of its own: a loop and its connection to the shared storage. */
export class Replica {
  readonly loop: CronLoop<string>;
  readonly #engine: ReplicaEngine;

  constructor(engine: Engine<string>, options: Omit<CronLoopOptions<string>, "mailbox">) {
    this.#engine = new ReplicaEngine(engine);
    const { clock } = options;
    const mailbox = new EngineMailbox<string, unknown, string>(
      "jobs",
      this.#engine,
      jsonCodec(),
      clock === undefined ? {} : { clock },
    );
    this.loop = new CronLoop({ ...options, mailbox });
  }

  /** Lets every call fail from now on, also those whose effect happens with `answersOnly`. */
  disconnect(answersOnly = false): void {
    this.#engine.loseConnection({ answersOnly });
    this.#engine.record.loseConnection({ answersOnly });
  }

  reconnect(): void {
    this.#engine.restoreConnection();
    this.#engine.record.restoreConnection();
  }

  /** Lets the process hang between the send of a slot and its record. */
  hangBeforeRecord(): void {
    this.#engine.record.freeze("send");
  }

  /** Lets every call hang, so that the process ends in the middle of it. */
  hang(): void {
    this.#engine.freeze();
    this.#engine.record.freeze();
  }
}

/** The storage that all replicas share, and what they have in common. */
export class Site {
  readonly clock: Clock;
  readonly storage: MemoryEngine<string>;
  readonly logged: string[] = [];
  readonly #consumer: EngineMailbox<string, unknown, string>;
  readonly #options: Omit<CronLoopOptions<string>, "mailbox">;

  constructor(clock: Clock, options: Partial<CronLoopOptions<string>> = {}) {
    this.clock = clock;
    this.storage = new MemoryEngine("jobs", Infinity, clock);
    this.#consumer = new EngineMailbox("jobs", this.storage, jsonCodec(), { clock });
    const record = (message: string) => void this.logged.push(message);
    const log: Log = { debug: record, info: record, warn: record, error: record };
    const { mailbox: _, ...others } = options;
    this.#options = {
      name: "report",
      schedule: "0 * * * *",
      body: ({ at }) => at.toISOString(),
      clock,
      log,
      ...others,
    };
  }

  replica(options: Partial<Omit<CronLoopOptions<string>, "mailbox">> = {}): Replica {
    return new Replica(this.storage, { ...this.#options, ...options });
  }

  /** Handles the stored messages. Returns their bodies: the times of their slots. */
  async handle(): Promise<string[]> {
    const messages = await this.#consumer.receive({ maxMessages: 1_000 });
    for (const message of messages) await message.acknowledge();
    return messages.map(({ body }) => body);
  }

  /** Returns the hours and minutes of the slots that were sent since the last call. */
  async times(): Promise<string[]> {
    return (await this.handle()).map((it) => it.slice(11, 16));
  }
}
