import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { Redis } from "ioredis";
import {
  type BoardOptions,
  Bus,
  type BusMessage,
  openRedisBoard,
} from "../../src/coordination/mod.ts";
import { shutdownAllCoordinated } from "../../src/coordination/mod.ts";
import { RedisMailbox } from "../../src/engines/redis/mod.ts";
import { silentLog } from "../../src/log.ts";
import { eventually, hasBinary, missing, PrivateServer, redis } from "../engines/_servers.ts";
import { cleanUp, gate, look, uniqueName, url } from "../engines/redis/_redis.ts";
import { boardCases } from "./_board_cases.ts";
import { enrolRecorder, sendTasks } from "./_world.ts";

const keyOf = (name: string, part: string) => `{lastcall.board:${name}}:${part}`;

async function cleanUpBoard(name: string): Promise<void> {
  await using behind = look();
  const parts = ["records", "seen", "versions", "version"];
  await behind.redis.unlink(...parts.map((part) => keyOf(name, part)));
}

async function openForTest(options: BoardOptions = {}) {
  const name = uniqueName();
  const open = () => openRedisBoard(url, { log: silentLog, ...options, name });
  const board = await open();
  return {
    board,
    name,
    another: open,
    async corrupt(agentId: string) {
      await using behind = look();
      await behind.redis.hset(keyOf(name, "records"), agentId, "running 12 {not json");
    },
    pass: (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms)),
    async [Symbol.asyncDispose]() {
      await board.close();
      await cleanUpBoard(name);
    },
  };
}

describe("a board on Redis", gate, () => {
  for (const { name, run } of boardCases) it(name, () => run(openForTest));

  it("uses four keys with one hash tag, and readable records", async () => {
    await using fixture = await openForTest();
    await fixture.board.setState("worker-1", "running", { zone: "b" });
    await using behind = look();
    const keys = await behind.redis.keys(`*${fixture.name}*`);
    assertEquals(
      keys.sort(),
      ["records", "seen", "version", "versions"].map((part) => keyOf(fixture.name, part)),
    );
    const record = await behind.redis.hget(keyOf(fixture.name, "records"), "worker-1");
    assert(/^running \d{13} \{"metadata":\{"zone":"b"\}\}$/.test(record!), record!);
  });

  it("coordinates members whose inboxes share its client, and leaves the client open", async () => {
    const client = new Redis(url, { maxRetriesPerRequest: 0 });
    const prefix = uniqueName();
    const ids = ["a", "b", "c"];
    {
      await using board = await openRedisBoard(client, { name: prefix });
      await using bus = new Bus({
        board,
        openInbox: (id) => RedisMailbox.open<BusMessage>(client, { name: `${prefix}-${id}` }),
      });
      const sender = await bus.enrol({ id: "sender" });
      const all = await Promise.all(ids.map((id) => enrolRecorder(bus, id)));
      for (const id of ids) await sendTasks(bus, sender, id, 12);
      const reports = await shutdownAllCoordinated(all.map(({ member }) => member));
      assert(reports.every(({ complete, processed }) => complete && processed === 12));
      const states = (await board.list()).map(({ status }) => status);
      assertEquals(states, [...Array(3).fill("shutdown_complete"), "running"]);
    }
    assertEquals(await client.ping(), "PONG");
    client.disconnect();
    await cleanUpBoard(prefix);
    for (const id of ids) await cleanUp(`${prefix}-${id}`);
  });

  it("refuses invalid options before it connects, and shows no password", async () => {
    const error = await assertRejects(
      () => openRedisBoard("http://me:secret@host"),
      Error,
      "redis://",
    );
    assert(!error.message.includes("secret"));
    await assertRejects(() => openRedisBoard(url, { name: "a b" }), TypeError);
    await assertRejects(() => openRedisBoard(url, { staleAfterMs: 0 }), RangeError);
  });
});

describe("a board on a Redis server that fails", {
  skip: hasBinary(redis) ? false : missing(redis),
}, () => {
  it("a call times out while the server is frozen, and watchers continue afterwards", async () => {
    await using server = await PrivateServer.start(redis);
    await using board = await openRedisBoard(server.url, { callTimeoutMs: 2_000, log: silentLog });
    await using other = await openRedisBoard(server.url, {
      callTimeoutMs: 2_000,
      pollIntervalMs: 60_000,
      log: silentLog,
    });
    const seen = new Set<string>();
    other.watch((changes) => changes.forEach((it) => seen.add(`${it.agentId} ${it.status}`)));
    await board.setState("worker-1", "running");
    await eventually(() => seen.has("worker-1 running") ? Promise.resolve() : Promise.reject());
    server.freeze();
    await assertRejects(() => board.setState("worker-1", "shutting_down"), Error, "did not answer");
    server.thaw();
    await eventually(() => board.setState("worker-2", "running"));
    assertEquals((await eventually(() => board.getState("worker-1"))).status, "running");
    await server.kill();
    await server.start();
    await eventually(() => board.setState("worker-3", "running"));
    await eventually(() => seen.has("worker-3 running") ? Promise.resolve() : Promise.reject());
  });
});
