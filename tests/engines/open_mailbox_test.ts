import { readdirSync } from "node:fs";
import process from "node:process";
import { describe, it } from "node:test";
import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { jsonCodec } from "../../src/mailbox/codec.ts";
import { openMailbox } from "../../src/engines/open_mailbox.ts";
import { NatsMailbox } from "../../src/engines/nats/mod.ts";
import { SqliteMailbox } from "../../src/engines/sqlite/mod.ts";
import { InvalidParameterError, MailboxFullError } from "../../src/mailbox/errors.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import {
  cleanUp as cleanUpNats,
  gate as gateOfNats,
  uniqueName,
  url as urlOfNats,
} from "./nats/_nats.ts";
import * as postgres from "./postgres/_shared.ts";
import * as redis from "./redis/_redis.ts";
import { TempFolder } from "./sqlite/_folder.ts";
import * as sqs from "./sqs/_sqs.ts";
import { runtimeName } from "../signals/_child.ts";

sqs.useServer();
process.env["AWS_ACCESS_KEY_ID"] ??= "test"; // the server takes any keys
process.env["AWS_SECRET_ACCESS_KEY"] ??= "very-secret";
const schema = postgres.ownSchema();

describe("openMailbox", () => {
  it("openMailbox opens a mailbox in memory, with a name and without", async () => {
    await using unnamed = await openMailbox<number>("memory:");
    await using named = await openMailbox<number>("memory:orders?maxSize=1");
    assert(unnamed instanceof InMemoryMailbox && named instanceof InMemoryMailbox);
    assertEquals([unnamed.name, named.name], ["memory", "orders"]);
    await named.send(1);
    await assertRejects(() => named.send(2), MailboxFullError);
  });

  it("openMailbox accepts every way to write the path of a SQLite file", async () => {
    using folder = new TempFolder();
    const path = folder.file("my jobs.db");
    const encoded = path.replaceAll(" ", "%20");
    const urls = [`sqlite:${path}`, `sqlite:${encoded}`, `SQLITE://${path}?queue=default`];
    for (const url of urls) {
      await using mailbox = await openMailbox<string>(url);
      assert(mailbox instanceof SqliteMailbox);
      await mailbox.send(url);
    }
    await using orders = await openMailbox(`sqlite:${path}?queue=orders&durability=full`);
    assertEquals([orders.name, await orders.approximateCount()], ["orders", 0]);
    await using all = await openMailbox(`sqlite:${path}`);
    assertEquals(await all.approximateCount(), 3);
  });

  it("openMailbox opens a file in the working directory", async () => {
    using folder = new TempFolder();
    const before = process.cwd();
    process.chdir(folder.path);
    try {
      await using mailbox = await openMailbox<number>("sqlite:./jobs.db");
      await mailbox.send(1);
      assert(readdirSync(".").includes("jobs.db"));
    } finally {
      process.chdir(before);
    }
  });

  it("openMailbox opens a queue of a NATS server", gateOfNats, async () => {
    const name = uniqueName();
    {
      await using mailbox = await openMailbox<number>(`${urlOfNats}?queue=${name}&maxSize=1`);
      assert(mailbox instanceof NatsMailbox);
      assertEquals(mailbox.name, name);
      await mailbox.send(1);
      await assertRejects(() => mailbox.send(2), MailboxFullError);
    }
    await cleanUpNats(name);
  });

  // deno-fmt-ignore -- a table: an engine, why it is not there, and a mailbox of it
  const stored: readonly (readonly [engine: string, skip: string | false, url: (folder: TempFolder) => string])[] = [
    ["SQLite", false, (folder) => `sqlite:${folder.file()}`],
    ["Deno KV", runtimeName === "deno" ? false : "only Deno has it", (folder) => `denokv:${folder.file()}`],
    ["Redis", redis.gate.skip, () => redis.url],
    ["PostgreSQL", postgres.options.skip, () => postgres.url!],
    ["NATS", gateOfNats.skip, () => urlOfNats],
    ["SQS", sqs.gate.skip, () => `sqs:${sqs.uniqueName()}?region=us-east-1&create=true&endpoint=${sqs.endpoint}`],
  ];
  for (const [engine, skip, urlIn] of stored) {
    it(
      `a URL of ${engine} accepts maxBodyBytes, as the error for a large body advises`,
      { skip },
      async () => {
        using folder = new TempFolder();
        const name = uniqueName();
        const own = engine === "SQS" ? "" : `queue=${name}&`;
        const postgresOnly = engine === "PostgreSQL" ? `schema=${schema}&` : "";
        const url = urlIn(folder);
        const base = `${url}${url.includes("?") ? "&" : "?"}${own}${postgresOnly}`;
        const body = "x".repeat(18); // and two quotes
        try {
          await using small = await openMailbox<string>(`${base}maxBodyBytes=19`);
          const error = await assertRejects(() => small.send(body), InvalidParameterError);
          const [, advised] = /has 20 bytes .* of its URL \(\?(maxBodyBytes=\d+)\)/
            .exec(error.message) ?? [];
          assert(advised !== undefined, error.message);
          await using large = await openMailbox<string>(`${base}${advised}`);
          await large.send(body);
          assertEquals((await large.receive({ waitTimeMs: 5_000 })).map((it) => it.body), [body]);
        } finally {
          if (engine === "Redis") await redis.cleanUp(name);
          if (engine === "NATS") await cleanUpNats(name);
        }
      },
    );
  }

  it("the error for a large body advises no more than the engine accepts", () => {
    const codec = jsonCodec(10, 12);
    const error = assertThrows(() => codec.checkSize!('"12345678901"'), InvalidParameterError);
    assertEquals(error.message.includes("maxBodyBytes"), false);
    assertThrows(() => codec.checkSize!('"1234567890"'), Error, "?maxBodyBytes=12");
  });

  it("openMailbox opens additional engines and passes the options", async () => {
    const log = { debug() {}, info() {}, warn() {}, error() {} };
    const seen: unknown[] = [];
    await using mailbox = await openMailbox("pigeon://roof/a%20b?speed=1&x", {
      log,
      engines: {
        pigeon(url, options) {
          seen.push(url.scheme, url.path, [...url.params], options);
          return new InMemoryMailbox("roof");
        },
      },
    });
    assertEquals(mailbox.name, "roof");
    assertEquals(seen, ["pigeon", "//roof/a b", [["speed", "1"], ["x", ""]], { log }]);
  });

  // deno-fmt-ignore -- a table: one bad URL a line
  const bad: readonly (readonly [what: string, url: string, said: string])[] = [
    ["a text without a scheme", "./jobs.db", 'URL "./jobs.db": expected "<scheme>:<path>'],
    ["an empty text", "", 'URL "": expected'],
    ["a fragment", "memory:a#b", "Malformed"],
    ["a control character", "memory:a\nb", "without control characters"],
    ["a lone percent sign", "sqlite:FOLDER/100%.db", "write %25"],
    ["an unknown scheme", "carrier://x", '"carrier" of a mailbox URL: expected one of memory, sqlite, '],
    ["a scheme that every object has", "constructor:x", "Unknown scheme"],
    ["an unknown parameter", "sqlite:FOLDER/a.db?quue=a", '"quue" of a sqlite: URL: expected one of queue,'],
    ["an unknown parameter of memory", "memory:?queue=a", '"queue" of a memory: URL'],
    ["a parameter twice", "sqlite:FOLDER/a.db?queue=a&queue=b", '"queue" occurs twice'],
    ["a queue name with quotes", "sqlite:FOLDER/a.db?queue=a'b", `got "a'b"`],
    ["a queue name with a control character", "sqlite:FOLDER/a.db?queue=a%0Ab", 'got "a\\nb"'],
    ["an empty queue name", "sqlite:FOLDER/a.db?queue=", 'got ""'],
    ["a name with quotes in memory", 'memory:"a"', "Invalid mailbox name"],
    ["an unknown durability", "sqlite:FOLDER/a.db?durability=some", 'expected one of "normal", "full", got "some"'],
    ["an invalid size", "sqlite:FOLDER/a.db?maxSize=-1", 'Invalid maxSize: expected a whole number, got "-1"'],
    ["an invalid body limit", "sqlite:FOLDER/a.db?maxBodyBytes=1MB", 'Invalid maxBodyBytes: expected a whole number, got "1MB"'],
    ["a body limit in memory, where there is none", "memory:?maxBodyBytes=5", '"maxBodyBytes" of a memory: URL'],
    ["an unknown parameter of NATS", "nats://localhost?quue=a", '"quue" of a nats: URL: expected one of queue,'],
    ["an invalid server of NATS", "nats:localhost", "expected nats://host:port"],
    ["an empty path", "sqlite:", 'Invalid path: expected that of a file, got ""'],
    ["a path in memory", "sqlite::memory:", "InMemoryMailbox"],
    ["a path with a control character", "sqlite:FOLDER/a%00.db", "Invalid path"],
    ["a host", "sqlite://jobs.db", "a file has no host"],
    ["a host of Deno KV", "denokv://jobs.kv", "of a denokv: URL: a file has no host; write denokv:./jobs.db"],
    ["an unknown parameter of Deno KV", "denokv:FOLDER/a.kv?name=a", '"name" of a denokv: URL'],
    ["an unknown parameter of SQS", "sqs:orders?queue=a", '"queue" of a sqs: URL: expected one of region, endpoint, create,'],
    ["an invalid flag", "sqs:orders?create=1", 'Invalid create: expected true or false, got "1"'],
    ["an invalid queue of SQS", "sqs:a/b", 'got "a/b"'],
    ["an invalid endpoint", "sqs:orders?endpoint=here", "Invalid endpoint"],
  ];
  for (const [what, url, said] of bad) {
    it(`openMailbox refuses ${what} and creates nothing`, async () => {
      using folder = new TempFolder();
      const error = await assertRejects(
        () => openMailbox(url.replace("FOLDER", folder.path)),
        InvalidParameterError,
      );
      assertStringIncludes(error.message, said);
      assertEquals(readdirSync(folder.path), []);
    });
  }

  it("errors of openMailbox contain no password", async () => {
    const error = await assertRejects(() => openMailbox("redis://me:secret@host/%"));
    assert(error instanceof InvalidParameterError && !error.message.includes("secret"));
  });
});
