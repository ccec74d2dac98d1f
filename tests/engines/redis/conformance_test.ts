import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { Redis } from "ioredis";
import { Backend } from "../../../src/engines/redis/_backend.ts";
import { RedisMailbox } from "../../../src/engines/redis/mod.ts";
import { RedisEngine } from "../../../src/engines/redis/redis_engine.ts";
import { systemClock } from "../../../src/clock.ts";
import { silentLog } from "../../../src/log.ts";
import { type MakeMailbox, skippedMailboxCases } from "../../../src/testing/mod.ts";
import { hostMailboxCases, realTime } from "../../mailbox/_hosts.ts";
import { cleanUp, gate, uniqueName, url } from "./_redis.ts";

const make: MakeMailbox = async (options) => {
  const name = uniqueName();
  const maxBodyBytes = 4_096;
  const open = () => RedisMailbox.open<unknown>(url, { ...options, name, maxBodyBytes });
  return {
    mailbox: await open(),
    tickMs: 100,
    pass: realTime,
    sibling: open,
    async sendRaw(body) {
      const client = new Redis(url);
      const backend = new Backend(client, {
        clock: systemClock,
        log: silentLog,
        callTimeoutMs: 5_000,
        pollIntervalMs: 5_000,
      });
      await backend.open();
      const engine = new RedisEngine(name, backend, Infinity);
      await engine.push([{ id: crypto.randomUUID(), body, delayMs: 0, dedup: false }]);
      await engine.close();
      await client.quit();
    },
    maxBodyBytes,
    close: () => cleanUp(name),
  };
};

describe("RedisMailbox", gate, () => {
  hostMailboxCases(make, { engine: "Redis", together: 4 });

  it("shows every case", async () => {
    assertEquals(await skippedMailboxCases(make), []);
  });
});
