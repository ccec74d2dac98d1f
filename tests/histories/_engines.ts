// The engines that histories run on, as far as this machine and this runtime have them.

import { gate as denoKv } from "../engines/deno_kv/_kv.ts";
import { gate as nats, url as natsUrl } from "../engines/nats/_nats.ts";
import { options as postgres, ownSchema, url as postgresUrl } from "../engines/postgres/_shared.ts";
import { gate as redis, url as redisUrl } from "../engines/redis/_redis.ts";
import { endpoint, gate as sqs } from "../engines/sqs/_sqs.ts";
import {
  DENO_KV_SKIPS,
  denoKvSite,
  LOCAL_SKIPS,
  memorySite,
  simulatedSite,
  sqliteSite,
} from "./_local_sites.ts";
import {
  isLocal,
  NATS_SKIPS,
  natsSite,
  postgresSite,
  redisSite,
  SQS_SKIPS,
  sqsSite,
} from "./_server_sites.ts";
import type { Site, Skips } from "./_site.ts";

/** An engine to test. */
export interface EngineUnderTest {
  readonly name: string;
  readonly gate: { readonly skip: string | false };
  /** How many histories a test runs by default. A history takes longer where a cut costs a reconnect. */
  readonly size: number;
  /** True when the contract leaves nothing open, so that its answers can be compared with another engine's. */
  readonly deterministic: boolean;
  /** The rules that it cannot keep. @default none */
  readonly skips?: Skips;
  open(): Promise<Site>;
}

type Gate = EngineUnderTest["gate"];

const always: Gate = { skip: false };
const schema = ownSchema();

/** Connections can be cut by a proxy on the machine of the server only. */
function onThisMachine(gate: Gate, url: string): Gate {
  if (gate.skip !== false || isLocal(url)) return gate;
  return { skip: `a proxy cannot be put in front of ${new URL(url).hostname}` };
}

/** All engines. Those that are missing here have a gate that says why. */
export const ENGINES: readonly EngineUnderTest[] = [
  {
    name: "a simulated server",
    gate: always,
    size: 60,
    deterministic: false, // the memory engine behind a client
    open: () => Promise.resolve(simulatedSite()),
  },
  {
    name: "memory",
    gate: always,
    size: 40,
    deterministic: false, // the others are compared with it
    skips: LOCAL_SKIPS,
    open: () => Promise.resolve(memorySite()),
  },
  {
    name: "SQLite",
    gate: always,
    size: 15,
    deterministic: true,
    skips: LOCAL_SKIPS,
    open: sqliteSite,
  },
  {
    name: "Deno KV",
    gate: denoKv,
    size: 8,
    deterministic: true,
    skips: DENO_KV_SKIPS,
    open: denoKvSite,
  },
  {
    name: "Redis",
    gate: onThisMachine(redis, redisUrl),
    size: 4,
    deterministic: true,
    open: () => redisSite(redisUrl),
  },
  {
    name: "PostgreSQL",
    gate: onThisMachine(postgres, postgresUrl!),
    size: 3,
    deterministic: true,
    open: () => postgresSite(postgresUrl!, schema),
  },
  {
    name: "NATS",
    gate: onThisMachine(nats, natsUrl),
    size: 2,
    deterministic: false,
    skips: NATS_SKIPS,
    open: () => natsSite(natsUrl),
  },
  {
    name: "SQS",
    gate: sqs,
    size: 2,
    deterministic: false,
    skips: SQS_SKIPS,
    open: () => sqsSite(endpoint),
  },
];
