// The test cases for every board, whatever its store.

import { assertEquals, assertRejects } from "@std/assert";
import type { Board, BoardOptions, MemberRecord } from "../../src/coordination/mod.ts";

/** A board for one case, and the actions that a case needs. */
export interface BoardFixture extends AsyncDisposable {
  readonly board: Board;
  /** Opens another board on the same storage, as another process would. */
  another(): Promise<Board>;
  /** Makes the record of a member unreadable. */
  corrupt?(agentId: string): Promise<void>;
  /** Lets time pass, at least for the board. */
  pass(ms: number): Promise<void>;
}

export type MakeBoard = (options?: BoardOptions) => BoardFixture | Promise<BoardFixture>;

export interface BoardCase {
  readonly name: string;
  /** True for cases that need an unreadable record, which memory cannot have. */
  readonly corrupts?: true;
  run(make: MakeBoard): Promise<void>;
}

/** Only a bug lets anything last this long. */
const SAFETY_MS = 10_000;

/** Long enough for any server, short enough for a test. */
const STALE_MS = 150;

/** Repeats `act` until it took less than the time after which a member is stale: a machine may be busy. */
async function beforeStale<T>(act: () => Promise<T>): Promise<T> {
  const limit = performance.now() + SAFETY_MS;
  for (;;) {
    const began = performance.now();
    const result = await act();
    if (performance.now() - began < STALE_MS || began > limit) return result;
  }
}

export const boardCases: readonly BoardCase[] = [
  {
    name: "a member goes from running to shutting_down to shutdown_complete, and can run again",
    async run(make) {
      await using fixture = await make();
      const { board } = fixture;
      for (const state of ["running", "shutting_down", "shutdown_complete", "running"] as const) {
        await board.setState("worker-1", state);
        const { status, updatedAt } = await board.getState("worker-1");
        assertEquals([status, typeof updatedAt], [state, "number"]);
      }
    },
  },
  {
    name: "an invalid transition is refused and changes nothing",
    async run(make) {
      await using fixture = await make();
      const { board } = fixture;
      await assertRejects(
        () => board.setState("worker-1", "shutdown_complete"),
        Error,
        'Member "worker-1" cannot go from unknown to shutdown_complete',
      );
      assertEquals((await board.getState("worker-1")).status, "unknown");
      await board.setState("worker-1", "running", { first: true });
      await assertRejects(() => board.setState("worker-1", "shutdown_complete"), Error, "running");
      await board.setState("worker-1", "shutting_down", { second: true });
      await assertRejects(() => board.setState("worker-1", "running"), Error, "shutting_down");
      const { status, metadata } = await board.getState("worker-1");
      assertEquals({ status, metadata }, { status: "shutting_down", metadata: { second: true } });
    },
  },
  {
    name: "a member that starts again after a crash can force the state running",
    async run(make) {
      await using fixture = await make();
      const { board } = fixture;
      await board.setState("worker-1", "shutting_down");
      await board.setState("worker-1", "running", {}, { force: true });
      assertEquals((await board.getState("worker-1")).status, "running");
    },
  },
  {
    name: "one call writes the allowed changes and reports an error for each other one",
    async run(make) {
      await using fixture = await make();
      const { board } = fixture;
      const errors = await board.setStates([
        { agentId: "a", state: "running" },
        { agentId: "b", state: "shutdown_complete" },
        { agentId: "c", state: "running", metadata: { zone: 3 } },
      ]);
      assertEquals(errors.map((error) => error?.name), [
        undefined,
        "InvalidTransitionError",
        undefined,
      ]);
      const list = await board.list();
      assertEquals(list.map(({ agentId, status, metadata }) => [agentId, status, metadata]), [
        ["a", "running", {}],
        ["c", "running", { zone: 3 }],
      ]);
    },
  },
  {
    name: "metadata with quotes, braces, newlines and empty values is stored unchanged",
    async run(make) {
      await using fixture = await make();
      const { board } = fixture;
      const metadata = {
        reason: `he said "stop" and {left}; it's 5 o'clock | \\ \n \t ünïcödé ☕`,
        nested: { empty: {}, list: [], deep: [{ "}{": '"' }] },
        big: 12345678901234,
      };
      await board.setState("worker-1", "running", metadata);
      assertEquals((await board.getState("worker-1")).metadata, metadata);
    },
  },
  {
    name: "a missing record is unknown, an unreadable one is corrupt and can be overwritten",
    corrupts: true,
    async run(make) {
      await using fixture = await make();
      const { board } = fixture;
      await board.setState("worker-1", "running");
      await board.setState("worker-2", "running");
      await fixture.corrupt!("worker-1");
      const corrupt = await board.getState("worker-1");
      assertEquals([corrupt.status, typeof corrupt.raw], ["corrupt", "string"]);
      assertEquals((await board.list()).map(({ status }) => status), ["corrupt", "running"]);
      assertEquals((await board.getState("worker-3")).status, "unknown");
      await assertRejects(
        () => board.setState("worker-1", "shutdown_complete"),
        Error,
        "cannot go from corrupt",
      );
      await board.setState("worker-1", "shutting_down");
      assertEquals((await board.getState("worker-1")).status, "shutting_down");
    },
  },
  {
    name: "a member becomes stale without a touch, unless it has completed its stop",
    async run(make) {
      await using fixture = await make({ staleAfterMs: STALE_MS });
      const { board } = fixture;
      for (const agentId of ["gone", "alive"]) await board.setState(agentId, "running");
      await board.setState("gone", "shutting_down");
      await board.setState("gone", "shutdown_complete");
      const dead = await beforeStale(async () => {
        await board.setState("dead", "running");
        return await board.getState("dead");
      });
      assertEquals(dead.status, "running");
      await fixture.pass(STALE_MS + 100);
      const list = await beforeStale(async () => {
        await board.touch(["alive", "absent"]);
        return await board.list();
      });
      assertEquals(list.map(({ agentId, status, state }) => [agentId, status, state]), [
        ["alive", "running", "running"],
        ["dead", "stale", "running"],
        ["gone", "shutdown_complete", "shutdown_complete"],
      ]);
    },
  },
  {
    name: "a watcher in another process gets each write, in order",
    async run(make) {
      await using fixture = await make({ pollIntervalMs: 60_000 });
      const { board } = fixture;
      await using other = await fixture.another();
      await board.setState("worker-1", "running");
      const seen = watching(other);
      await seen.until("worker-1 running");
      await board.setState("worker-1", "shutting_down");
      await seen.until("worker-1 shutting_down");
      await board.setState("worker-2", "running");
      await seen.until("worker-2 running");
      assertEquals(seen.log, ["worker-1 running", "worker-1 shutting_down", "worker-2 running"]);
      seen.stop();
    },
  },
  {
    name: "a watcher gets each of many changes of one call once",
    async run(make) {
      await using fixture = await make();
      const { board } = fixture;
      await using other = await fixture.another();
      const seen = watching(other);
      await other.synced();
      const ids = Array.from({ length: 50 }, (_, i) => `member-${i}`);
      await board.setStates(ids.map((agentId) => ({ agentId, state: "running" })));
      await Promise.all(ids.map((id) => seen.until(`${id} running`)));
      assertEquals(seen.log.length, 50);
      seen.stop();
    },
  },
  {
    name: "a notice is stored with the state",
    async run(make) {
      await using fixture = await make();
      const { board } = fixture;
      const notice = { id: "msg-1", reason: "deploy", agents: ["a", "b"], sequences: { c: 4 } };
      await board.setState("a", "shutting_down", {}, { notice });
      assertEquals((await board.getState("a")).notice, notice);
    },
  },
  {
    name: "a forgotten member is unknown, also to watchers",
    async run(make) {
      await using fixture = await make({ pollIntervalMs: 50 });
      const { board } = fixture;
      const seen = watching(board);
      await board.setState("worker-1", "running");
      await seen.until("worker-1 running");
      await board.forget("worker-1");
      assertEquals((await board.getState("worker-1")).status, "unknown");
      await fixture.pass(100);
      await seen.until("worker-1 unknown");
      seen.stop();
    },
  },
  {
    name: "a watcher is notified that a member became stale",
    async run(make) {
      await using fixture = await make({ staleAfterMs: STALE_MS, pollIntervalMs: 50 });
      const { board } = fixture;
      const seen = watching(board);
      await board.setState("worker-1", "running");
      // On a busy machine the first poll may be so late that the member is stale already.
      const touching = setInterval(() => board.touch(["worker-1"]).catch(() => {}), STALE_MS / 10);
      await seen.until("worker-1 running").finally(() => clearInterval(touching));
      await fixture.pass(STALE_MS + 100);
      await seen.until("worker-1 stale");
      seen.stop();
    },
  },
  {
    name: "concurrent writers leave a readable record with the metadata of one of them",
    async run(make) {
      await using fixture = await make();
      const { board } = fixture;
      await using other = await fixture.another();
      const values = Array.from(
        { length: 40 },
        (_, i) => ({ number: i, text: "{".repeat(i * 20) }),
      );
      const readings: MemberRecord[] = [];
      await board.setState("worker-1", "running");
      await Promise.all(values.map(async (metadata, i) => {
        await (i % 2 ? board : other).setState("worker-1", "running", metadata);
        readings.push(await (i % 2 ? other : board).getState("worker-1"));
      }));
      assertEquals(new Set(readings.map(({ status }) => status)), new Set(["running"]));
      const { metadata } = await board.getState("worker-1");
      assertEquals(metadata, values[metadata!.number as number]);
    },
  },
  {
    name: "an id that is unsafe in a key or a path is refused",
    async run(make) {
      await using fixture = await make();
      const { board } = fixture;
      for (const id of ["", "a/b", "..", "a b", "ä", "x".repeat(65), "{tag}", "a\n"]) {
        await assertRejects(() => board.setState(id, "running"), TypeError, "Invalid agent id");
        await assertRejects(() => board.getState(id), TypeError, "Invalid agent id");
      }
      await board.setState(`${"x".repeat(62)}_-`, "running");
      assertEquals((await board.list()).length, 1);
    },
  },
];

/** Records the changes that a watcher gets. */
function watching(board: Board): {
  readonly log: readonly string[];
  until(entry: string): Promise<void>;
  stop(): void;
} {
  const log: string[] = [];
  const waiting = new Set<() => void>();
  const stop = board.watch((changes) => {
    log.push(...changes.map(({ agentId, status }) => `${agentId} ${status}`));
    for (const look of waiting) look();
  });
  const until = (entry: string) =>
    new Promise<void>((resolve, reject) => {
      const limit = setTimeout(() => {
        reject(new Error(`Waited ${SAFETY_MS} ms for "${entry}", and saw ${log.join(", ")}`));
      }, SAFETY_MS);
      const look = () => {
        if (!log.includes(entry)) return;
        clearTimeout(limit);
        waiting.delete(look);
        resolve();
      };
      waiting.add(look);
      look();
    });
  return { log, until, stop };
}
