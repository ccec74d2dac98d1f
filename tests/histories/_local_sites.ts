// Engines without a connection to break. A wrapper refuses a call, or loses its answer after the engine has
// carried it out; the engine itself does not notice, so it cannot know that a settlement is a repetition.

import { type Clock, systemClock } from "../../src/clock.ts";
import { Store } from "../../src/engines/deno_kv/_store.ts";
import { DenoKvEngine } from "../../src/engines/deno_kv/deno_kv_engine.ts";
import { Connection } from "../../src/engines/sqlite/_connection.ts";
import { anyDriver } from "../../src/engines/sqlite/drivers.ts";
import { SqliteEngine } from "../../src/engines/sqlite/sqlite_engine.ts";
import { silentLog } from "../../src/log.ts";
import { jsonCodec } from "../../src/mailbox/codec.ts";
import type { Engine } from "../../src/mailbox/engine.ts";
import { EngineMailbox } from "../../src/mailbox/engine_mailbox.ts";
import { MemoryEngine } from "../../src/mailbox/memory_engine.ts";
import { systemRandom } from "../../src/random.ts";
import { FaultyEngine } from "../../src/testing/faulty_engine.ts";
import { openStore, TempFolder } from "../engines/deno_kv/_kv.ts";
import { CLIENTS } from "./_calls.ts";
import type { Rules } from "./_rules.ts";
import { type ClientFault, SimulatedClient, SimulatedServer } from "./_remote.ts";
import {
  ALL_RULES,
  type Client,
  lookAt,
  type OpenQueue,
  type Site,
  type Skips,
  WrapperBreaker,
} from "./_site.ts";

const ABOVE = "its calls have no connection: the answer is lost above the engine";

/** The rules that have no meaning without a connection. */
export const LOCAL_SKIPS: Skips = {
  "a repeated settlement returns what the first one did": ABOVE,
  "the messages of a lost receive are available again": ABOVE,
};

/** The rules that Deno KV cannot keep here. */
export const DENO_KV_SKIPS: Skips = {
  ...LOCAL_SKIPS,
  "a peek shows the checkpoint": "checkpoints have keys of their own, which a peek does not read",
};

const LOCAL_RULES: Rules = { ...ALL_RULES, remembers: "none", undoesReceives: false };

/** Wraps the engines of one queue, one for each process. */
function wrapped(name: string, engines: readonly Engine<string>[]): OpenQueue {
  const clients = engines.map((engine): Client => {
    const faulty = new FaultyEngine(engine);
    const mailbox = new EngineMailbox<number, unknown, string>(name, faulty, jsonCodec(), {
      log: silentLog,
    });
    return { mailbox, breaker: new WrapperBreaker(faulty) };
  });
  return { clients, [Symbol.asyncDispose]: async () => await engines[0]!.drop?.() };
}

function perClient<T>(make: (client: number) => T): T[] {
  return Array.from({ length: CLIENTS }, (_, client) => make(client));
}

/** The engine in memory, or one with a planted fault. All processes share it. */
export function memorySite(
  make: (name: string, clock: Clock) => Engine<string> = (name, clock) => {
    return new MemoryEngine<string>(name, Infinity, clock);
  },
): Site {
  return {
    engine: "memory",
    rules: LOCAL_RULES,
    open(name) {
      const engine = make(name, systemClock);
      return Promise.resolve(wrapped(name, perClient(() => engine)));
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/** A simulated server with a client for each process, correct or with a planted fault. */
export function simulatedSite(fault?: ClientFault): Site {
  return {
    engine: "a simulated server",
    rules: ALL_RULES,
    open(name) {
      const server = new SimulatedServer(name, systemClock);
      const engines = perClient((client) => new SimulatedClient(server, client, fault));
      const queue = wrapped(name, engines);
      const clients = queue.clients.map(({ mailbox }, i) => {
        return { mailbox, breaker: new WrapperBreaker(engines[i]!.link) };
      });
      return Promise.resolve({ ...queue, clients });
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/** One file, and a connection for each process. */
export async function sqliteSite(): Promise<Site> {
  const folder = new TempFolder();
  const options = { driver: anyDriver, durability: "normal", clock: systemClock } as const;
  const connections = perClient(() => new Connection(folder.file("jobs.db"), options, 50));
  for (const connection of connections) await connection.open();
  const shared = { clock: systemClock, random: systemRandom, maxSize: Infinity };
  return {
    engine: "SQLite",
    rules: LOCAL_RULES,
    open(name) {
      const engines = connections.map((each) => new SqliteEngine(name, each, shared));
      return Promise.resolve(wrapped(name, engines));
    },
    async [Symbol.asyncDispose]() {
      for (const connection of connections) await connection.close();
      folder[Symbol.dispose]();
    },
  };
}

/** One file, and a store for each process. */
export async function denoKvSite(): Promise<Site> {
  // Deno KV orders the messages of several processes by the milliseconds of their clocks.
  let last = 0;
  const clock: Clock = {
    ...systemClock,
    now: () => last = Math.max(last + 1, systemClock.now()),
  };
  const folder = new TempFolder();
  const stores = await Promise.all(perClient(async () => {
    const options = { callTimeoutMs: 5_000, ownsKv: true, random: systemRandom, log: silentLog };
    const kv = await openStore(folder.file("jobs.kv"));
    return new Store(kv, { ...options, clock });
  }));
  return {
    engine: "Deno KV",
    rules: LOCAL_RULES,
    async look(mailbox) {
      const { messages, ...look } = await lookAt(mailbox);
      return { ...look, messages: messages?.map((it) => ({ ...it, checkpoint: undefined })) };
    },
    open(name) {
      const engines = stores.map((store) => {
        return new DenoKvEngine(name, { store, maxSize: Infinity, pollIntervalMs: 600_000 });
      });
      return Promise.resolve(wrapped(name, engines));
    },
    async [Symbol.asyncDispose]() {
      for (const store of stores) await store.close();
      folder[Symbol.dispose]();
    },
  };
}
