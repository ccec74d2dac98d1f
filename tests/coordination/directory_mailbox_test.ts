import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { platform } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { nextTurn, systemClock } from "../../src/clock.ts";
import {
  Bus,
  type BusMessage,
  DirectoryMailbox,
  openDirectoryBoard,
  shutdownWithCoordination,
} from "../../src/coordination/mod.ts";
import { DirectoryEngine } from "../../src/coordination/directory/directory_engine.ts";
import { silentLog } from "../../src/log.ts";
import { systemRandom } from "../../src/random.ts";
import { type MakeMailbox, skippedMailboxCases, VirtualClock } from "../../src/testing/mod.ts";
import { BEYOND_BASIC, hostMailboxCases, realTime } from "../mailbox/_hosts.ts";
import { makeFolder } from "./_folder.ts";

function engineOf(base: string, name: string): DirectoryEngine {
  return new DirectoryEngine({
    path: join(base, name),
    name,
    maxSize: Infinity,
    clock: systemClock,
    log: silentLog,
    random: systemRandom,
  });
}

const make: MakeMailbox = async (options) => {
  const folder = await makeFolder();
  const maxBodyBytes = 4_096;
  const open = () =>
    DirectoryMailbox.open<unknown>(folder.path, "orders", { ...options, maxBodyBytes });
  return {
    mailbox: await open(),
    tickMs: 100,
    pass: realTime,
    sibling: open,
    async sendRaw(body) {
      const engine = engineOf(folder.path, "orders");
      await engine.send([{ id: crypto.randomUUID(), body, delayMs: 0, dedup: false }]);
    },
    maxBodyBytes,
    lacks: ["queues"],
    close: async () => await folder[Symbol.asyncDispose](),
  };
};

/** What a directory that scripts share cannot do. */
const LACKS = BEYOND_BASIC.filter((what) => what !== "longDelays");

describe("DirectoryMailbox", () => {
  hostMailboxCases(make, { lacks: LACKS });

  it("skips only the cases of what a directory lacks", async () => {
    const reasons = new Set((await skippedMailboxCases(make)).map(({ why }) => why));
    const expected = LACKS.map((what) =>
      `${what === "queues" ? "there is" : "the engine has"} no ${what}`
    );
    assertEquals([...reasons].sort(), expected.sort());
  });

  it("stats and peek tell the state of each message, also of a file that a script added", async () => {
    await using folder = await makeFolder();
    const clock = new VirtualClock();
    await using mailbox = await DirectoryMailbox.open<number>(folder.path, "orders", { clock });
    const inbox = join(folder.path, "orders", "inbox");
    await writeFile(join(inbox, "script.json"), "7");
    const first = await mailbox.stats();
    assertEquals([first.waiting, first.oldestWaitingMs, first.dead], [1, undefined, 0]);
    await rm(join(inbox, "script.json"));
    await mailbox.sendMany([1, 2, 3]);
    await mailbox.send(4, { delayMs: 40 * 86_400_000 });
    const [one, two] = await mailbox.receive({ maxMessages: 2, visibilityTimeoutMs: 5_000 });
    await one!.nack({ delayMs: 2_000 });
    await clock.advance(1_000);
    const { waiting, delayed, inFlight, oldestWaitingMs } = await mailbox.stats();
    assertEquals([waiting, delayed, inFlight, oldestWaitingMs], [1, 2, 1, 1_000]);
    const states = (await mailbox.peek(10)).map(({ body, state }) => [body, state]);
    assertEquals(states, [[1, "delayed"], [2, "inFlight"], [3, "waiting"], [4, "delayed"]]);
    await clock.advance(1_000);
    assertEquals((await mailbox.stats()).waiting, 2, "the retry is due");
    await clock.advance(40 * 86_400_000);
    const all = await mailbox.stats();
    assertEquals([all.waiting, all.delayed, all.inFlight], [4, 0, 0]);
    assertEquals(two!.finalized, false);
  });
});

describe("many mailboxes in a directory", () => {
  const skip = platform() === "linux" ? false : "only Linux reports how many watches a process has";

  it("many mailboxes share a few watches, and each is woken by its message", { skip }, async () => {
    await using folder = await makeFolder();
    const names = Array.from({ length: 100 }, (_, i) => `worker-${i}`);
    const open = async (name: string) => {
      const engine = engineOf(folder.path, name);
      await engine.open();
      return engine;
    };
    const before = await countWatches();
    const silent = new Set(names);
    const receivers = await Promise.all(names.map(open));
    const stops = receivers.map((engine, i) => engine.onWake(() => silent.delete(names[i]!)));
    const senders = await Promise.all(names.map(open));
    while (silent.size > 0) { // a watch may start later
      for (const [i, sender] of senders.entries()) {
        if (!silent.has(names[i]!)) continue;
        await sender.send([{ id: crypto.randomUUID(), body: "1", delayMs: 0, dedup: false }]);
      }
      await nextTurn();
    }
    const watches = await countWatches() - before;
    for (const stop of stops) stop();
    assert(watches >= 1 && watches <= 16, `${watches} watches for ${names.length} mailboxes`);
  });
});

/** Returns the number of watches of this process. */
async function countWatches(): Promise<number> {
  const folder = "/proc/self/fdinfo";
  const files = await Promise.all((await readdir(folder)).map((fd) => {
    return readFile(join(folder, fd), "utf8").catch(() => ""); // closed meanwhile
  }));
  return files.join("\n").split("\n").filter((line) => line.startsWith("inotify wd:")).length;
}

describe("scripts and a mailbox in a directory", () => {
  it("exchange messages, and a malformed one is dead-lettered unchanged", async () => {
    await using folder = await makeFolder();
    await using board = await openDirectoryBoard(join(folder.path, "state"));
    await using bus = new Bus({
      board,
      openInbox: (id) => DirectoryMailbox.open<BusMessage>(join(folder.path, "messages"), id),
    });
    const worked: unknown[] = [];
    const worker = await bus.enrol({
      id: "worker-1",
      handlers: { task: ({ payload }) => void worked.push(payload) },
    });
    const sender = await bus.enrol({ id: "sender" });
    const inbox = join(folder.path, "messages", "worker-1", "inbox");

    await bus.send(sender, "worker-1", "task", { id: 1 });
    const [name] = await readdir(inbox);
    const { from, to, type, sequence } = JSON.parse(await readFile(join(inbox, name!), "utf8"));
    assertEquals([from, to, type, sequence], ["sender", "worker-1", "task", 1]);

    const script = (id: number) =>
      JSON.stringify({
        msg_id: `msg-${id}`,
        from: "script",
        to: "worker-1",
        type: "task",
        payload: { id },
      });
    for (let id = 2; id <= 12; id++) {
      await writeFile(join(inbox, `msg-1759806939-${id}.json`), script(id));
    }
    await writeFile(join(inbox, "msg-1759806939-13.json"), '{"msg_id": "msg-13", "from": "scr');

    const report = await shutdownWithCoordination(worker);
    assertEquals([report.complete, report.processed, report.left], [true, 12, 0]);
    assertEquals(worked.length, 12);
    const [deadLetter] = await worker.inbox.deadLetters!.receive();
    assertEquals(deadLetter?.body.raw, '{"msg_id": "msg-13", "from": "scr');
    const state = await readFile(join(folder.path, "state", "worker-1.json"), "utf8");
    assertEquals(JSON.parse(state).state, "shutdown_complete");
  });
});
