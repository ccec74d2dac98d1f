// Limits of engines are refused before anything is opened: the places below cannot be reached.

import { describe, it } from "node:test";
import { assertRejects, assertThrows } from "@std/assert";
import { DirectoryMailbox, openPostgresBoard } from "../../src/coordination/mod.ts";
import { DenoKvMailbox } from "../../src/engines/deno_kv/mod.ts";
import { NatsMailbox } from "../../src/engines/nats/mod.ts";
import { PostgresMailbox } from "../../src/engines/postgres/mod.ts";
import { RedisMailbox } from "../../src/engines/redis/mod.ts";
import { SqliteMailbox } from "../../src/engines/sqlite/mod.ts";
import { SqsMailbox } from "../../src/engines/sqs/mod.ts";
import { jsonCodec } from "../../src/mailbox/codec.ts";

type Open = (options: object) => Promise<unknown>;

const engines: Readonly<Record<string, Open>> = {
  "Deno KV": (options) => DenoKvMailbox.open("/nowhere/x.kv", options),
  "a directory": (options) => DirectoryMailbox.open("/nowhere", "orders", options),
  NATS: (options) => NatsMailbox.open("nats://127.0.0.1:1", options),
  PostgreSQL: (options) => PostgresMailbox.open("postgres://127.0.0.1:1/x", options),
  Redis: (options) => RedisMailbox.open("redis://127.0.0.1:1", options),
  SQLite: (options) => SqliteMailbox.open("/nowhere/x.db", options),
  SQS: (options) => SqsMailbox.open("http://127.0.0.1:1/000000000000/orders", options),
};

describe("Settings of engines", () => {
  for (const [engine, open] of Object.entries(engines)) {
    it(`${engine}: maxBodyBytes is a whole number from 1`, async () => {
      for (const maxBodyBytes of [1.5, 0, -1, NaN, "10"]) {
        const kind = typeof maxBodyBytes === "number" ? RangeError : TypeError;
        const error = await assertRejects(() => open({ maxBodyBytes }), kind);
        assertMessage(error, "maxBodyBytes", maxBodyBytes);
      }
    });
  }

  it("Deno KV: maxBodyBytes is at most what it can store", async () => {
    const open = () => engines["Deno KV"]!({ maxBodyBytes: 65_536 });
    await assertRejects(open, RangeError, "from 1 to 57344");
  });

  it("NATS: replicas is a whole number from 1 to 5", async () => {
    for (const replicas of [1.5, 0, -1, 6, NaN, Infinity]) {
      const error = await assertRejects(() => engines["NATS"]!({ replicas }), RangeError);
      assertMessage(error, "replicas", replicas);
    }
  });

  it("PostgreSQL: maxConnections is a whole number from 1", async () => {
    for (const maxConnections of [1.5, 0, -1, NaN, Infinity]) {
      const opens = [
        () => engines["PostgreSQL"]!({ maxConnections }),
        () => openPostgresBoard("postgres://127.0.0.1:1/x", { maxConnections }),
      ];
      for (const open of opens) {
        const error = await assertRejects(open, RangeError);
        assertMessage(error, "maxConnections", maxConnections);
      }
    }
  });

  it("a codec refuses an invalid limit", () => {
    assertThrows(() => jsonCodec(1.5), RangeError, "a whole number");
    jsonCodec(Infinity);
  });
});

function assertMessage({ message }: Error, name: string, value: unknown): void {
  const wanted = new RegExp(`^Invalid ${name}: expected a whole number from 1 .*got "?${value}"?`);
  if (!wanted.test(message)) throw new Error(`not clear: ${message}`);
}
