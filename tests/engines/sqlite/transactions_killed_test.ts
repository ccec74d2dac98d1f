import process from "node:process";
import { test } from "node:test";
import { assertEquals } from "@std/assert";
import { nodeSqlite, SqliteMailbox } from "../../../src/engines/sqlite/mod.ts";
import { seededRandom } from "../../../src/random.ts";
import { seed } from "../../_seed.ts";
import { Child } from "../../signals/_child.ts";
import { eventually } from "../_servers.ts";
import { effects } from "./_clients.ts";
import { TempFolder } from "./_folder.ts";

/** `LASTCALL_KILL_MESSAGES=10000` runs a longer test. */
const COUNT = Number(process.env["LASTCALL_KILL_MESSAGES"] ?? 300);

const random = seededRandom(seed);
/** After how many messages a worker is killed. */
const life = () => 1 + Math.floor(random.number() * Math.min(COUNT / 12, 100));

test(`workers that are killed at random lose and repeat no effect of a transaction (seed ${seed})`, async (t) => {
  using folder = new TempFolder();
  const path = folder.file();
  const database = await nodeSqlite(path);
  database.exec("CREATE TABLE effect (n INTEGER NOT NULL)");
  database.close();
  await using jobs = await SqliteMailbox.open<number>(path, { name: "jobs", sharedFile: true });
  const all = Array.from({ length: COUNT }, (_, i) => i);
  await jobs.sendMany(all);
  const start = (...args: readonly number[]) =>
    Child.start("../../engines/sqlite/fixtures/transact", { args: [path, ...args.map(String)] });

  /** Kills itself at a chosen point of a transaction. */
  const killedInside = async () => {
    await using worker = start(life(), random.number());
    assertEquals((await worker.exit()).signal, "SIGKILL");
  };
  /** Is killed wherever it is, also within a call of SQLite. */
  const killedOutside = async () => {
    await using worker = start();
    await worker.line(`handled ${life()}`);
    worker.kill("SIGKILL");
    assertEquals((await worker.exit()).signal, "SIGKILL");
  };
  let kills = 0;
  for (; await jobs.approximateCount() > COUNT / 2; kills += 3) {
    await Promise.all([killedInside(), killedInside(), killedOutside()]);
  }
  t.diagnostic?.(`${kills} kills`);

  await using survivor = start();
  await eventually(async () => assertEquals(await jobs.approximateCount(), 0));
  survivor.kill("SIGTERM");
  assertEquals((await survivor.exit()).code, 0);
  assertEquals(await effects(path), all);
});
