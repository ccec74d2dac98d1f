import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  type BoardOptions,
  Bus,
  type BusMessage,
  openPostgresBoard,
  shutdownAllCoordinated,
} from "../../src/coordination/mod.ts";
import { PostgresMailbox } from "../../src/engines/postgres/mod.ts";
import { silentLog } from "../../src/log.ts";
import { observer, options as gate, ownSchema, url } from "../engines/postgres/_shared.ts";
import { boardCases } from "./_board_cases.ts";
import { enrolRecorder, sendTasks } from "./_world.ts";

describe("a board in PostgreSQL", gate, () => {
  const schema = ownSchema();

  async function openForTest(options: BoardOptions = {}) {
    const name = crypto.randomUUID();
    const open = () => openPostgresBoard(url!, { log: silentLog, ...options, schema, name });
    const board = await open();
    return {
      board,
      another: open,
      async corrupt(agentId: string) {
        const sql = observer();
        await sql.unsafe(
          `update "${schema}".agents set state = 'invalid' where board = $1 and agent_id = $2`,
          [name, agentId],
        );
        await sql.end();
      },
      pass: (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms)),
      async [Symbol.asyncDispose]() {
        await board.close();
      },
    };
  }

  for (const { name, run } of boardCases) it(name, () => run(openForTest));

  it("is created once when many processes open it at the same time", async () => {
    const fresh = ownSchema();
    const open = () => openPostgresBoard(url!, { schema: fresh, log: silentLog });
    const boards = await Promise.all([open(), open(), open(), open()]);
    await boards[0]!.setState("worker-1", "running");
    assertEquals((await boards[3]!.getState("worker-1")).status, "running");
    for (const board of boards) await board.close();
  });

  it("checks the schema with `migrate: false`, and refuses a newer one", async () => {
    const fresh = ownSchema();
    await assertRejects(
      () => openPostgresBoard(url!, { schema: fresh, migrate: false }),
      Error,
      "version 0",
    );
    await (await PostgresMailbox.open(url!, { schema: fresh })).close();
    await assertRejects(
      () => openPostgresBoard(url!, { schema: fresh, migrate: false }),
      Error,
      "have version 0 and this package needs 1",
    );
    await (await openPostgresBoard(url!, { schema: fresh })).close();
    await (await openPostgresBoard(url!, { schema: fresh, migrate: false })).close();
    const sql = observer();
    await sql.unsafe(`insert into "${fresh}".board_migrations (version) values (7)`);
    await sql.end();
    await assertRejects(() => openPostgresBoard(url!, { schema: fresh }), Error, "have version 7");
  });

  it("coordinates members whose inboxes are in the same database", async () => {
    await using board = await openPostgresBoard(url!, { schema, name: crypto.randomUUID() });
    const prefix = crypto.randomUUID();
    await using bus = new Bus({
      board,
      openInbox: (id) =>
        PostgresMailbox.open<BusMessage>(url!, { schema, name: `${prefix}-${id}` }),
    });
    const sender = await bus.enrol({ id: "sender" });
    const all = await Promise.all(["a", "b", "c"].map((id) => enrolRecorder(bus, id)));
    for (const { member } of all) await sendTasks(bus, sender, member.id, 12);
    const reports = await shutdownAllCoordinated(all.map(({ member }) => member));
    assert(reports.every(({ complete, processed }) => complete && processed === 12));
    const states = (await board.list()).map(({ status }) => status);
    assertEquals(states, [...Array(3).fill("shutdown_complete"), "running"]);
  });

  it("refuses invalid options before it connects", async () => {
    await assertRejects(() => openPostgresBoard(url!, { schema: "A B" }), Error, "Invalid schema");
    await assertRejects(() => openPostgresBoard(url!, { name: "a b" }), TypeError);
    await assertRejects(() => openPostgresBoard(url!, { staleAfterMs: 0 }), RangeError);
  });
});
