import { readdir, readFile, rename, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { Bus, openDirectoryBoard } from "../../src/coordination/mod.ts";
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
