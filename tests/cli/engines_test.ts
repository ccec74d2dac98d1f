import process from "node:process";
import { describe, it } from "node:test";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { openMailbox } from "../../mod.ts";
import { freePort } from "../engines/_servers.ts";
import * as nats from "../engines/nats/_nats.ts";
import * as postgres from "../engines/postgres/_shared.ts";
import * as redis from "../engines/redis/_redis.ts";
import { noServer, SqsServer } from "../engines/sqs/_server.ts";
import { lastcall } from "./_io.ts";

function queueOf(url: string): string {
  return new URL(url).searchParams.get("queue")!;
}

/** Calls all mailbox commands, with the results that SQLite has. */
async function useAllCommands(url: string): Promise<void> {
  await lastcall(["send", url, '{"dish":"soup"}', "--id", "first"]);
  assertEquals((await lastcall(["send", url], { lines: ["2", "3"] })).out, "sent 2 messages\n");
  const peeked = await lastcall(["peek", url, "--json"]);
  assertEquals(peeked.json.map(({ body }) => body), [{ dish: "soup" }, 2, 3]);
  {
    await using mailbox = await openMailbox(url);
    const [message] = await mailbox.receive();
    await message!.deadLetter({ reason: "burnt" });
  }
  assertMatch(
    (await lastcall(["count", url])).out,
    /^2 messages \(2 waiting.*\), 1 dead letter\n$/,
  );
  assertEquals((await lastcall(["dlq", "list", url, "--json"])).json[0].reason, "burnt");
  assertEquals((await lastcall(["dlq", "show", url, "first", "--json"])).json[0].id, "first");
  assertEquals((await lastcall(["dlq", "redrive", url, "first", "--json"])).json, [{
    redriven: 1,
  }]);
  assertEquals((await lastcall(["dlq", "purge", url, "--yes", "--json"])).json, [{ deleted: 0 }]);
  assertEquals((await lastcall(["peek", url, "--id", "first", "--json"])).json[0].state, "waiting");
  const queues = (await lastcall(["queues", url, "--json"])).json;
  assertEquals(queues.find(({ name }) => name === queueOf(url))?.waiting, 3);
  await useControl(url);
  await lastcall(["send", url, "4", "--id", "later", "--delay", "1h"]);
  assertEquals((await lastcall(["deliver", url, "later"])).out, "delivered later\n");
  assertEquals((await lastcall(["deliver", url, "later"])).out, "not delayed later\n");
  assertEquals((await lastcall(["cancel", url, "later"])).out, "cancelled later\n");
  const page = await lastcall(["peek", url, "--skip", "1", "-n", "1", "--json"]);
  assertEquals(page.json.map(({ body }) => body), [3]);
  {
    await using mailbox = await openMailbox(url);
    await (await mailbox.receive())[0]!.deadLetter({ reason: "burnt" });
    const { id } = (await mailbox.deadLetters!.peek!(1))[0]!;
    const { out } = await lastcall(["dlq", "delete", url, id, "--yes"]);
    assertEquals(out, `deleted ${id}\n`);
  }
  assertEquals((await lastcall(["cancel", url, "first"])).out, "cancelled first\n");
  assertEquals((await lastcall(["cancel", url, "first"])).out, "not found first\n");
  assertEquals((await lastcall(["purge", url, "--yes", "--json"])).json, [{ deleted: 1 }]);
}

/** Pauses, resumes and, where the engine can, limits a queue with three waiting messages. */
async function useControl(url: string): Promise<void> {
  const { json } = await lastcall(["pause", url, "--for", "1h", "--json"]);
  assertEquals([json[0].state, json[0].mailbox], ["paused", queueOf(url)]);
  await using mailbox = await openMailbox(url);
  assertEquals(await mailbox.receive(), []);
  assertEquals((await lastcall(["resume", url, "--json"])).json[0].state, "resumed");
  const receive = async () => {
    const messages = await mailbox.receive({ maxMessages: 10 });
    for (const message of messages) await message.release();
    return messages.length;
  };
  assertEquals(await receive(), 3);
  if (!mailbox.capabilities.rateLimit) return;
  assertEquals(json[0].pausedForMs > 3_500_000, true);
  await lastcall(["limit", url, "2/h"]);
  assertEquals(await receive(), 2);
  assertEquals(await receive(), 0);
  const [shown] = (await lastcall(["limit", url, "--json"])).json;
  assertEquals(shown.rateLimit, { max: 2, perMs: 3_600_000 });
  await lastcall(["limit", url, "off"]);
  assertEquals(await receive(), 3);
}

describe("mailbox commands on Redis", redis.gate, () => {
  it("mailbox commands on Redis work as on SQLite", async () => {
    const name = redis.uniqueName();
    try {
      await useAllCommands(`${redis.url}?queue=${name}`);
    } finally {
      await redis.cleanUp(name);
    }
  });
});

describe("mailbox commands on PostgreSQL", postgres.options, () => {
  const schema = postgres.ownSchema();
  it("mailbox commands on PostgreSQL work as on SQLite", async () => {
    await useAllCommands(`${postgres.url}?queue=orders&schema=${schema}`);
  });
});

describe("mailbox commands on NATS", nats.gate, () => {
  it("mailbox commands on NATS look through the dead letters for an id", async () => {
    const name = nats.uniqueName();
    const url = `${nats.url}?queue=${name}`;
    try {
      {
        await using mailbox = await openMailbox(url);
        await mailbox.sendMany([1, 2, 3], (body) => ({ id: `order-${body}` }));
        for (const message of await mailbox.receive({ maxMessages: 3 })) {
          await message.deadLetter({ reason: "burnt" });
        }
      }
      const listed = await lastcall(["dlq", "list", url, "--skip", "1", "--json"]);
      assertEquals(listed.json.map(({ id }) => id), ["order-2", "order-3"]);
      assertEquals((await lastcall(["dlq", "show", url, "order-3", "--json"])).json[0].body, 3);
      const unknown = await lastcall(["dlq", "show", url, "order-4"]);
      assertStringIncludes(unknown.err, "No dead letter has the id order-4");
      const ended = await lastcall(["dlq", "delete", url, "order-1", "--yes"]);
      assertStringIncludes(ended.err, "cannot delete dead letters by id");
      const redriven = await lastcall(["dlq", "redrive", url, "order-2", "--json"]);
      assertEquals(redriven.json, [{ redriven: 1 }]);
      assertEquals((await lastcall(["peek", url, "--json"])).json.map(({ body }) => body), [2]);
    } finally {
      await nats.cleanUp(name);
    }
  });
});

describe("mailbox commands on SQS", { skip: noServer }, () => {
  it("mailbox commands on SQS say what the engine cannot do, and exit 1", async () => {
    await using server = await SqsServer.start();
    const keys = { AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "very-secret" };
    const place = `region=us-east-1&create=true&endpoint=${server.endpoint}`;
    Object.assign(process.env, keys);
    try {
      const url = `sqs:orders?${place}`;
      const said = async (...args: string[]) => {
        const { code, out, err } = await lastcall(args);
        return { code, out, err: err.replace(/^error: /, "").trimEnd() };
      };
      const lacks = (what: string) => ({
        ...{ code: 1, out: "" },
        err: `The engine of mailbox "orders" cannot ${what}`,
      });
      assertEquals(await said("peek", url, "--id", "a"), lacks("find messages by id"));
      assertEquals(await said("cancel", url, "a"), lacks("cancel messages by id"));
      assertEquals(await said("deliver", url, "a"), lacks("deliver messages by id"));
      assertEquals(await said("queues", url), lacks("list its queues"));
      assertEquals(await said("limit", url, "1/s"), lacks("limit its deliveries"));
      assertMatch((await said("pause", url)).err, /cannot pause its deliveries: pause the groups/);
      assertMatch((await said("send", url, "1", "--priority", "5")).err, /^Cannot use priority on/);
      assertMatch((await said("count", url)).out, /^0 messages, 0 dead letters\n$/);
    } finally {
      for (const name of Object.keys(keys)) delete process.env[name];
    }
  });
});

describe("an unreachable engine", () => {
  for (const [scheme, path] of [["redis", ""], ["postgres", "/app"], ["nats", ""]]) {
    it(`an unreachable engine is reported in one line without the password: ${scheme}`, async () => {
      const url = `${scheme}://anna:s3cret@127.0.0.1:${await freePort()}${path}`;
      const { code, out, err } = await lastcall(["count", url, "--json"]);
      assertEquals({ code, out }, { code: 1, out: "" });
      const { error } = JSON.parse(err);
      assertEquals(error.code, "unavailable");
      assertStringIncludes(error.message.toLowerCase(), "127.0.0.1");
      assertEquals(err.includes("s3cret"), false);
    });
  }
});
