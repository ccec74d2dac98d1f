import { readdir, readFile, rename, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  Board,
  Bus,
  openDirectoryBoard,
  shutdownAllCoordinated,
} from "../../src/coordination/mod.ts";
import { DirectoryStore } from "../../src/coordination/directory/directory_board.ts";
import { boardCases } from "./_board_cases.ts";
import { makeFolder } from "./_folder.ts";
import { realTime } from "../mailbox/_hosts.ts";

describe("a board in a directory", () => {
  for (const { name, run } of boardCases) {
    it(name, () =>
      run(async (options) => {
        const folder = await makeFolder();
        const board = await openDirectoryBoard(folder.path, options);
        return {
          board,
          another: () => openDirectoryBoard(folder.path, options),
          corrupt: (id) => writeFile(join(folder.path, `${id}.json`), '{"agent_id": "wor'),
          pass: realTime,
          async [Symbol.asyncDispose]() {
            await board.close();
            await folder[Symbol.asyncDispose]();
          },
        };
      }));
  }

  it("stores one file for each member, which scripts can read, and no other files", async () => {
    await using folder = await makeFolder();
    await using board = await openDirectoryBoard(folder.path);
    await board.setState("worker-1", "shutting_down", { reason: 'a "good" {reason}' });
    assertEquals(await readdir(folder.path), ["worker-1.json"]);
    const record = JSON.parse(await readFile(join(folder.path, "worker-1.json"), "utf8"));
    assert(Math.abs(record.timestamp - Date.now() / 1_000) < 5);
    assertEquals({ ...record, timestamp: 0 }, {
      agent_id: "worker-1",
      state: "shutting_down",
      timestamp: 0,
      metadata: { reason: 'a "good" {reason}' },
    });
  });

  it("reads the records of scripts, and reports invalid ones as corrupt", async () => {
    await using folder = await makeFolder();
    await using board = await openDirectoryBoard(folder.path);
    const write = (id: string, text: string) => writeFile(join(folder.path, `${id}.json`), text);
    await write("script", '{"agent_id":"script","state":"running","timestamp":1759806939}');
    await write("other", '{"agent_id":"another","state":"running","timestamp":1759806939}');
    await write("invalid", '{"agent_id":"invalid","state":"invalid","timestamp":1759806939}');
    await write("empty", "");
    const { status, updatedAt, metadata } = await board.getState("script");
    assertEquals([status, updatedAt, metadata], ["running", 1_759_806_939_000, {}]);
    for (const id of ["other", "invalid", "empty"]) {
      assertEquals((await board.getState(id)).status, "corrupt", id);
    }
  });

  it("a watcher reads only the members that were written, not all members for each write", async () => {
    const MEMBERS = 60;
    await using folder = await makeFolder();
    const work = { listings: 0, read: 0 };
    class CountingStore extends DirectoryStore {
      override list(since?: unknown) {
        work.listings++;
        return super.list(since);
      }
      override read(agentIds: readonly string[]) {
        work.read += agentIds.length;
        return super.read(agentIds);
      }
    }
    await using board = new Board({
      pollIntervalMs: 600_000,
      store: new CountingStore(folder.path),
    });
    await using bus = new Bus({ board });
    await using peers = new Bus({ board: await openDirectoryBoard(folder.path) });
    const complete = new Set<string>();
    const allComplete = new Promise<void>((resolve) => {
      board.watch((changes) => {
        for (const { agentId, status } of changes) {
          if (status === "shutdown_complete") complete.add(agentId);
        }
        if (complete.size === MEMBERS) resolve();
      });
    });
    const ids = Array.from({ length: MEMBERS }, (_, i) => `worker-${i}`);
    await bus.enrol({ id: "watcher" });
    const members = await peers.enrolAll(ids.map((id) => ({ id })));
    for (const member of members) await shutdownAllCoordinated([member]); // one write after another
    await allComplete;
    await peers.board.close();
    // One first list, and one that the bus requests. Four writes each; a write may be reported twice.
    assert(work.listings <= 3, `all members were listed ${work.listings} times`);
    assert(work.read <= 8 * MEMBERS, `${work.read} records were read`);
  });

  it("a send to a member whose record is unreadable is paused", async () => {
    await using folder = await makeFolder();
    await using board = await openDirectoryBoard(folder.path);
    await using bus = new Bus({ board });
    const sender = await bus.enrol({ id: "sender" });
    // A rename, because a watcher could read a file that is still empty.
    const unfinished = join(folder.path, "worker-1.tmp");
    await writeFile(unfinished, "{");
    await rename(unfinished, join(folder.path, "worker-1.json"));
    const sent = await bus.send(sender, "worker-1", "task", {});
    assert(sent.outcome === "paused");
    assertEquals([sent.record.status, sent.record.raw], ["corrupt", "{"]);
  });

  it("breaks the lock of a dead process", async () => {
    await using folder = await makeFolder();
    await using board = await openDirectoryBoard(folder.path);
    const lock = join(folder.path, "worker-1.lock");
    await writeFile(lock, "a dead process");
    const longAgo = Date.now() / 1_000 - 60;
    await utimes(lock, longAgo, longAgo);
    await board.setState("worker-1", "running");
    assertEquals(await readdir(folder.path), ["worker-1.json"]);
  });

  it("refuses to open where no directory can be created", async () => {
    await using folder = await makeFolder();
    await writeFile(join(folder.path, "file"), "");
    await assertRejects(() => openDirectoryBoard(join(folder.path, "file", "board")), Error);
    await assertRejects(() => openDirectoryBoard(""), TypeError, "Invalid folder");
  });
});
