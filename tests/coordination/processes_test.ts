import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { type BusMessage, DirectoryMailbox } from "../../src/coordination/mod.ts";
import { cleanUp, gate, look, uniqueName, url } from "../engines/redis/_redis.ts";
import { Child } from "../signals/_child.ts";
import { makeFolder } from "./_folder.ts";
import { openPlace } from "./_places.ts";

const PROCESSES = 5;
const IDS = Array.from({ length: 20 }, (_, i) => `worker-${i}`);
const TASKS_EACH = 10;
/** Longer waits are failures. */
const SAFETY_MS = 15_000;

/** Stops 20 members in five processes at once, while they have messages and get more. */
async function stopAll(place: string, name: string, notes: string): Promise<void> {
  await using meeting = await openPlace(place, name);
  const { board, bus } = meeting;
  writeFileSync(notes, "");
  const share = IDS.length / PROCESSES;
  const children = Array.from({ length: PROCESSES }, (_, i) => {
    const own = IDS.slice(i * share, (i + 1) * share);
    return Child.start("../../coordination/fixtures/members", {
      args: [place, name, notes, ...own],
    });
  });
  try {
    await Promise.all(children.map((child) => child.line("ready")));
    const told: string[] = [];
    const sender = await bus.enrol({
      id: "sender",
      onNotification: ({ payload }) =>
        void told.push(...payload.shutting_down_agents ?? [payload.shutting_down_agent]),
    });
    await board.synced();
    const accepted: string[] = [];
    const refused = new Set<string>();
    const send = async (id: string) => {
      const sent = await bus.send(sender, id, "task", {});
      if (sent.outcome === "accepted") accepted.push(sent.messageId);
      else refused.add(id);
    };
    await Promise.all(IDS.map(async (id) => {
      for (let i = 0; i < TASKS_EACH; i++) await send(id);
    }));
    assertEquals(accepted.length, IDS.length * TASKS_EACH);

    for (const child of children) child.kill("SIGTERM");
    while (refused.size < IDS.length) {
      await Promise.all(IDS.filter((id) => !refused.has(id)).map(send));
      await new Promise((resolve) => setTimeout(resolve, 5)); // at about the rate of the handlers
    }
    const ends = await Promise.all(children.map((child) => child.exit()));
    assertEquals(ends.map(({ code }) => code), ends.map(() => 0), ends[0]?.stderr);

    const states = await board.list();
    const stopped = states.filter(({ status }) => status === "shutdown_complete");
    assertEquals(stopped.map(({ agentId }) => agentId), [...IDS].sort());
    await board.synced();
    assertEquals(told.sort(), [...IDS].sort(), "every stop is notified once");

    const worked = readFileSync(notes, "utf8").split("\n").slice(0, -1);
    const left = await Promise.all(IDS.map(async (id) => {
      const messages = await (await bus.inboxOf(id)).receive({ maxMessages: 1_000 });
      return messages.map(({ body }) => body.msg_id);
    }));
    assertEquals([...worked, ...left.flat()].sort(), accepted.sort());
    assert(worked.length >= IDS.length * TASKS_EACH);
  } finally {
    for (const child of children) await child[Symbol.asyncDispose]();
  }
}

describe("a member that is killed while it drains its inbox", () => {
  it("handled messages are gone, and the others reappear after the visibility timeout of the run", async () => {
    await using folder = await makeFolder();
    const inbox = await DirectoryMailbox.open<BusMessage>(join(folder.path, "messages"), "worker");
    const parts = { msg_id: "msg-1", from: "sender", to: "worker", type: "task" };
    const envelope = (payload: string) => ({ ...parts, payload }) as BusMessage;
    const done = ["1", "2", "3", "4", "5"];
    const rest = ["6", "7", "8", "9", "10"]; // of the same batch
    await inbox.sendMany([...done, ...rest].map(envelope));
    const visibilityMs = 2_000;
    await using child = Child.start("../../coordination/fixtures/draining", {
      args: [folder.path, "worker", String(visibilityMs), rest[0]!],
    });
    await child.line("ready");
    child.kill("SIGTERM");
    await child.line("hangs");
    const limit = performance.now() + SAFETY_MS;
    while (await inbox.approximateCount() > rest.length && performance.now() < limit) {
      await new Promise((resolve) => setTimeout(resolve, 10)); // the last acknowledgement is pending
    }
    assertEquals(await inbox.approximateCount(), rest.length);
    child.kill("SIGKILL");
    await child.exit();
    const back: unknown[] = [];
    const until = performance.now() + SAFETY_MS; // by default they would reappear after five minutes
    while (back.length < rest.length && performance.now() < until) {
      const messages = await inbox.receive({ maxMessages: 10, waitTimeMs: visibilityMs });
      back.push(...messages.map(({ body }) => body.payload));
    }
    assertEquals(back, rest);
    await inbox.close();
  });
});

describe("20 members in five processes that stop at once", () => {
  it("no message is lost in a directory", async () => {
    await using folder = await makeFolder();
    await stopAll(folder.path, "", join(folder.path, "notes"));
  });

  it("no message is lost on Redis", gate, async () => {
    await using folder = await makeFolder();
    const name = uniqueName();
    try {
      await stopAll(url, name, join(folder.path, "notes"));
    } finally {
      for (const id of [...IDS, "sender"]) await cleanUp(`${name}-${id}`);
      await using behind = look();
      const parts = ["records", "seen", "versions", "version"];
      await behind.redis.unlink(...parts.map((part) => `{lastcall.board:${name}}:${part}`));
    }
  });
});
