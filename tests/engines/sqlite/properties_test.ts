import { it } from "node:test";
import * as fc from "fast-check";
import { type Clock, systemClock } from "../../../src/clock.ts";
import { Connection } from "../../../src/engines/sqlite/_connection.ts";
import { nodeSqlite } from "../../../src/engines/sqlite/mod.ts";
import { SqliteEngine } from "../../../src/engines/sqlite/sqlite_engine.ts";
import { jsonCodec } from "../../../src/mailbox/codec.ts";
import { systemRandom } from "../../../src/random.ts";
import { histories } from "../../mailbox/_commands.ts";
import { History } from "../../mailbox/_history.ts";
import { seed } from "../../_seed.ts";
import { TempFolder } from "./_folder.ts";

it(`the accounting of a SQLite file holds in random histories (seed ${seed})`, async () => {
  using folder = new TempFolder();
  const options = { driver: nodeSqlite, durability: "normal", clock: systemClock } as const;
  const connection = new Connection(folder.file(), options, 50);
  await connection.open();
  let queues = 0;
  const codec = jsonCodec();
  const property = fc.asyncProperty(histories, async (commands) => {
    const name = `queue-${++queues}`;
    const options = { random: systemRandom, maxSize: Infinity };
    const open = (clock: Clock) => new SqliteEngine(name, connection, { ...options, clock });
    await new History(open, { codec, name }).run(commands);
  });
  await fc.assert(property, { numRuns: 300, seed });
  await connection.close();
});
