import { it } from "node:test";
import * as fc from "fast-check";
import { type Clock, systemClock } from "../../../src/clock.ts";
import { Connection } from "../../../src/engines/sqlite/_connection.ts";
import { nodeSqlite } from "../../../src/engines/sqlite/mod.ts";
import { SqliteEngine } from "../../../src/engines/sqlite/sqlite_engine.ts";
import type { Delivery, Engine, Entry } from "../../../src/mailbox/engine.ts";
import { systemRandom } from "../../../src/random.ts";
import { histories } from "../../mailbox/_commands.ts";
import { History } from "../../mailbox/_history.ts";
import { seed } from "../../mailbox/_seed.ts";
import { TempFolder } from "./_folder.ts";

type Own = Delivery<unknown> & { readonly stored: Delivery<string> };

const encode = (value: unknown) => value === undefined ? undefined : JSON.stringify(value);
const decode = (text: string | undefined) => text === undefined ? undefined : JSON.parse(text);

/** An engine for the histories, whose bodies are values: it stores them as text. */
function encoding(engine: SqliteEngine): Engine<unknown> {
  const stored = (deliveries: readonly Delivery<unknown>[]) =>
    deliveries.map((it) => (it as Own).stored);
  const encoded = ({ body, meta, checkpoint, ...rest }: Entry<unknown>): Entry<string> => ({
    ...rest,
    body: JSON.stringify(body),
    meta: encode(meta),
    checkpoint: encode(checkpoint),
  });
  const decoded = (stored: Delivery<string>): Own => ({
    id: stored.id,
    receiptHandle: stored.receiptHandle,
    deliveryCount: stored.deliveryCount,
    enqueuedAt: stored.enqueuedAt,
    body: decode(stored.body),
    meta: decode(stored.meta),
    checkpoint: decode(stored.checkpoint),
    state: stored.state,
    stored,
  });
  return {
    capabilities: engine.capabilities,
    send: (entries) => engine.send(entries.map(encoded)),
    async receive(max, visibilityMs) {
      const { deliveries, nextDueMs } = await engine.receive(max, visibilityMs);
      return { deliveries: deliveries.map(decoded), nextDueMs };
    },
    acknowledge: (deliveries) => engine.acknowledge(stored(deliveries)),
    extend: (deliveries, ms) => engine.extend(stored(deliveries), ms),
    nack: (deliveries, ms, countsAttempt) => engine.nack(stored(deliveries), ms, countsAttempt),
    release: (deliveries) => engine.release(stored(deliveries)),
    deadLetter: (delivery, letter) => engine.deadLetter(stored([delivery])[0]!, encoded(letter)),
    checkpoint: (delivery, it) => engine.checkpoint(stored([delivery])[0]!, JSON.stringify(it)),
    peek: async (max) => (await engine.peek(max)).map(decoded),
    count: () => engine.count(),
    stats: () => engine.stats(),
    async find(id) {
      const found = await engine.find(id);
      return found && decoded(found);
    },
    cancel: (id) => engine.cancel(id),
    onCancel: (listener) => engine.onCancel(listener),
    pause: (paused) => engine.pause(paused),
    purge: () => engine.purge(),
    onWake: (listener) => engine.onWake(listener),
    deadLetters: () => encoding(engine.deadLetters()),
    close: () => {},
  };
}

it(`the accounting of a SQLite file holds in random histories (seed ${seed})`, async () => {
  using folder = new TempFolder();
  const options = { driver: nodeSqlite, durability: "normal", clock: systemClock } as const;
  const connection = new Connection(folder.file(), options, 50);
  await connection.open();
  let queues = 0;
  const property = fc.asyncProperty(histories, async (commands) => {
    const queue = `queue-${++queues}`;
    const options = { random: systemRandom, maxSize: Infinity };
    const open = (clock: Clock) => new SqliteEngine(queue, connection, { ...options, clock });
    await new History((clock) => encoding(open(clock))).run(commands);
  });
  await fc.assert(property, { numRuns: 300, seed });
  await connection.close();
});
