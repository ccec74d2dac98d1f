import { describe, it } from "node:test";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { openMailbox } from "../../mod.ts";
import { freePort } from "../engines/_servers.ts";
import * as postgres from "../engines/postgres/_shared.ts";
import * as redis from "../engines/redis/_redis.ts";
import { lastcall } from "./_io.ts";

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
  assertEquals((await lastcall(["dlq", "redrive", url, "--json"])).json, [{ redriven: 1 }]);
  assertEquals((await lastcall(["dlq", "purge", url, "--yes", "--json"])).json, [{ deleted: 0 }]);
  assertEquals((await lastcall(["purge", url, "--yes", "--json"])).json, [{ deleted: 3 }]);
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
