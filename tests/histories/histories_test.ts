import { describe, it } from "node:test";
import { gate as denoKv } from "../engines/deno_kv/_kv.ts";
import { gate as nats, url as natsUrl } from "../engines/nats/_nats.ts";
import { options as postgres, ownSchema, url as postgresUrl } from "../engines/postgres/_shared.ts";
import { gate as redis, url as redisUrl } from "../engines/redis/_redis.ts";
import { endpoint, gate as sqs, useServer as useSqs } from "../engines/sqs/_sqs.ts";
import { seed } from "../mailbox/_seed.ts";
import { holds, sizeOf } from "./_check.ts";
import { denoKvSite, memorySite, sqliteSite } from "./_local_sites.ts";
import { natsSite, postgresSite, redisSite, sqsSite } from "./_server_sites.ts";
import type { Site } from "./_site.ts";

interface Engine {
  readonly name: string;
  readonly gate: { readonly skip: string | false };
  readonly size: number;
  open(): Promise<Site>;
}

const always = { skip: false } as const;
const schema = ownSchema();

const ENGINES: readonly Engine[] = [
  { name: "memory", gate: always, size: 50, open: () => Promise.resolve(memorySite()) },
  { name: "SQLite", gate: always, size: 20, open: sqliteSite },
  { name: "Deno KV", gate: denoKv, size: 10, open: denoKvSite },
  { name: "Redis", gate: redis, size: 10, open: () => redisSite(redisUrl) },
  { name: "PostgreSQL", gate: postgres, size: 10, open: () => postgresSite(postgresUrl!, schema) },
  { name: "NATS", gate: nats, size: 10, open: () => natsSite(natsUrl) },
  { name: "SQS", gate: sqs, size: 10, open: () => sqsSite(endpoint) },
];

describe("histories of a queue whose answers are lost", () => {
  useSqs();

  for (const { name, gate, size, open } of ENGINES) {
    it(`${name} keeps the rules in random histories (seed ${seed})`, gate, async () => {
      await using site = await open();
      console.log(name, JSON.stringify(await holds(site, sizeOf(size))));
    });
  }
});
