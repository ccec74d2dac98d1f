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

  it("has a file for each agent that scripts can read, and leaves nothing else behind", async () => {
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

  it("reads what scripts have written, and says what is corrupt about the rest", async () => {
    await using folder = await makeFolder();
    await using board = await openDirectoryBoard(folder.path);
    const write = (id: string, text: string) => writeFile(join(folder.path, `${id}.json`), text);
    await write("script", '{"agent_id":"script","state":"running","timestamp":1759806939}');
    await write("other", '{"agent_id":"somebody","state":"running","timestamp":1759806939}');
    await write("dancing", '{"agent_id":"dancing","state":"dancing","timestamp":1759806939}');
    await write("empty", "");
    const { status, updatedAt, metadata } = await board.getState("script");
    assertEquals([status, updatedAt, metadata], ["running", 1_759_806_939_000, {}]);
    for (const id of ["other", "dancing", "empty"]) {
      assertEquals((await board.getState(id)).status, "corrupt", id);
    }
  });

  it("reads each agent that was written, and not all agents again for each write", async () => {
    const AGENTS = 60;
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
        if (complete.size === AGENTS) resolve();
      });
    });
    const ids = Array.from({ length: AGENTS }, (_, i) => `worker-${i}`);
    await bus.enrol({ id: "watcher" });
    const agents = await peers.enrolAll(ids.map((id) => ({ id })));
    for (const agent of agents) await shutdownAllCoordinated([agent]); // a write after another
    await allComplete;
    await peers.board.close();
    // A first look, and one that the bus asks for. Four writes each; a write may be told of twice.
    assert(work.listings <= 3, `all were listed ${work.listings} times`);
    assert(work.read <= 8 * AGENTS, `${work.read} were read`);
  });

  it("pauses who sends to an agent whose record cannot be read", async () => {
    await using folder = await makeFolder();
    await using board = await openDirectoryBoard(folder.path);
    await using bus = new Bus({ board });
    const sender = await bus.enrol({ id: "sender" });
    // In one step: who watches could see the file while it is still empty.
    const unfinished = join(folder.path, "worker-1.tmp");
    await writeFile(unfinished, "{");
    await rename(unfinished, join(folder.path, "worker-1.json"));
    const sent = await bus.send(sender, "worker-1", "task", {});
    assert(sent.outcome === "paused");
    assertEquals([sent.record.status, sent.record.raw], ["corrupt", "{"]);
  });

  it("takes a lock from one who died with it", async () => {
    await using folder = await makeFolder();
    await using board = await openDirectoryBoard(folder.path);
    const lock = join(folder.path, "worker-1.lock");
    await writeFile(lock, "somebody who is dead");
    const longAgo = Date.now() / 1_000 - 60;
    await utimes(lock, longAgo, longAgo);
    await board.setState("worker-1", "running");
    assertEquals(await readdir(folder.path), ["worker-1.json"]);
  });

  it("fails to open where no directory can be", async () => {
    await using folder = await makeFolder();
    await writeFile(join(folder.path, "file"), "");
    await assertRejects(() => openDirectoryBoard(join(folder.path, "file", "board")), Error);
    await assertRejects(() => openDirectoryBoard(""), TypeError, "Invalid folder");
  });
});
