import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { systemClock } from "../../../src/clock.ts";
import { DenoKvEngine } from "../../../src/engines/deno_kv/deno_kv_engine.ts";
import { DenoKvMailbox } from "../../../src/engines/deno_kv/mod.ts";
import { Store } from "../../../src/engines/deno_kv/_store.ts";
import { silentLog } from "../../../src/log.ts";
import { systemRandom } from "../../../src/random.ts";
import { type MakeMailbox, skippedMailboxCases } from "../../../src/testing/mod.ts";
import { hostMailboxCases, realTime } from "../../mailbox/_hosts.ts";
import { gate, openStore, TempFolder } from "./_kv.ts";

const make: MakeMailbox = async (options) => {
  const folder = new TempFolder();
  const path = folder.file("jobs.kv");
  const maxBodyBytes = 4_096;
  const name = "orders";
  const open = () => DenoKvMailbox.open<unknown>(path, { ...options, name, maxBodyBytes });
  return {
    mailbox: await open(),
    tickMs: 1_000, // leases use the wall clock, and every call waits for a disk
    pass: realTime,
    sibling: open,
    async sendRaw(body) {
      const store = new Store(await openStore(path), {
        ...{ clock: systemClock, random: systemRandom, log: silentLog },
        ...{ callTimeoutMs: 5_000, ownsKv: true },
      });
      const engine = new DenoKvEngine(name, { store, maxSize: Infinity, pollIntervalMs: 5_000 });
      await engine.send([{ id: crypto.randomUUID(), body, delayMs: 0, dedup: false }]);
      await engine.close();
    },
    maxBodyBytes,
    close: () => Promise.resolve(folder[Symbol.dispose]()),
  };
};

describe("DenoKvMailbox", gate, () => {
  hostMailboxCases(make, { engine: "Deno KV", together: 16 });

  it("Deno KV skips only the cases of messages that are found by their id", async () => {
    const reasons = new Set((await skippedMailboxCases(make)).map(({ why }) => why));
    assertEquals([...reasons], ["the engine has no lookup"]);
  });
});
