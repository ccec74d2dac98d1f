import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { RedisMailbox } from "../../../src/engines/redis/mod.ts";
import { type MakeMailbox, skippedMailboxCases } from "../../../src/testing/mod.ts";
import { hostMailboxCases, realTime } from "../../mailbox/_hosts.ts";
import { cleanUp, gate, openEngine, uniqueName, url } from "./_redis.ts";

const make: MakeMailbox = async (options) => {
  const name = uniqueName();
  const maxBodyBytes = 4_096;
  const open = () => RedisMailbox.open<unknown>(url, { ...options, name, maxBodyBytes });
  return {
    mailbox: await open(),
    tickMs: 200,
    pass: realTime,
    sibling: open,
    async sendRaw(body) {
      const engine = await openEngine(name);
      await engine.send([{ id: crypto.randomUUID(), body, delayMs: 0, dedup: false }]);
      await engine.close();
    },
    maxBodyBytes,
    close: () => cleanUp(name),
  };
};

describe("RedisMailbox", gate, () => {
  hostMailboxCases(make, { engine: "Redis", together: 16 });

  it("RedisMailbox runs every case and skips none", async () => {
    assertEquals(await skippedMailboxCases(make), []);
  });
});
