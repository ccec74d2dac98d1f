import { it } from "node:test";
import * as fc from "fast-check";
import { systemClock } from "../../../src/clock.ts";
import { Connection } from "../../../src/engines/sqlite/_connection.ts";
import { nodeSqlite } from "../../../src/engines/sqlite/mod.ts";
import { SqliteEngine } from "../../../src/engines/sqlite/sqlite_engine.ts";
import type { Delivery, Engine } from "../../../src/mailbox/engine.ts";
import { histories } from "../../mailbox/_commands.ts";
import { History } from "../../mailbox/_history.ts";
import { TempFolder } from "./_folder.ts";

type Stored = Delivery<string>;
type Own = Delivery<unknown> & { readonly stored: Stored };

/** An engine for the histories, whose bodies are values: it writes them as text. */
function written(engine: SqliteEngine): Engine<unknown> {
  const stored = (deliveries: readonly Delivery<unknown>[]) =>
    deliveries.map((it) => (it as Own).stored);
  const read = (it: Stored): Own => {
    const { id, body, receipt, deliveryCount, enqueuedAt, checkpoint } = it;
    const progress = checkpoint === undefined ? undefined : JSON.parse(checkpoint);
    const own = { id, receipt, deliveryCount, enqueuedAt, checkpoint: progress };
    return { ...own, body: JSON.parse(body), stored: it };
  };
  return {
    capabilities: engine.capabilities,
    push: (entries) =>
      engine.push(entries.map(({ body, checkpoint, ...rest }) => ({
        ...rest,
        body: JSON.stringify(body),
        checkpoint: checkpoint === undefined ? undefined : JSON.stringify(checkpoint),
      }))),
    async pull(max, visibilityMs) {
      const { deliveries, nextDueMs } = await engine.pull(max, visibilityMs);
      return { deliveries: deliveries.map(read), nextDueMs };
    },
    acknowledge: (deliveries) => engine.acknowledge(stored(deliveries)),
    extend: (deliveries, ms) => engine.extend(stored(deliveries), ms),
    retry: (deliveries, ms, spends) => engine.retry(stored(deliveries), ms, spends),
    release: (deliveries) => engine.release(stored(deliveries)),
    bury: (delivery, letter) => engine.deadLetter(stored([delivery])[0]!, JSON.stringify(letter)),
    checkpoint: (delivery, it) => engine.checkpoint(stored([delivery])[0]!, JSON.stringify(it)),
    peek: async (max) => (await engine.peek(max)).map(read),
    count: () => engine.count(),
    purge: () => engine.purge(),
    onWake: (listener) => engine.onWake(listener),
    deadLetters: () => written(engine.deadLetters()),
    close: () => {},
  };
}

it("the accounting of a SQLite file holds in random histories", async () => {
  using folder = new TempFolder();
  const options = { driver: nodeSqlite, durability: "normal", clock: systemClock } as const;
  const connection = new Connection(folder.file(), options, 50);
  await connection.open();
  let queues = 0;
  const property = fc.asyncProperty(histories, async (commands) => {
    const queue = `queue-${++queues}`;
    await new History((clock) => written(new SqliteEngine(queue, connection, clock, Infinity)))
      .run(commands);
  });
  await fc.assert(property, { numRuns: 300, seed: 20260301 });
  await connection.close();
});
