// Engines on a server. Each process has a connection of its own, through a proxy that cuts it.

import { SQSClient } from "@aws-sdk/client-sqs";
import { connect } from "@nats-io/transport-node";
import { systemClock } from "../../src/clock.ts";
import { NatsMailbox } from "../../src/engines/nats/mod.ts";
import { PostgresEngine } from "../../src/engines/postgres/postgres_engine.ts";
import { openPostgresLink, type PostgresLink } from "../../src/engines/postgres/postgres_link.ts";
import { RedisEngine } from "../../src/engines/redis/redis_engine.ts";
import { openRedisLink } from "../../src/engines/redis/redis_link.ts";
import { SqsMailbox } from "../../src/engines/sqs/mod.ts";
import { silentLog } from "../../src/log.ts";
import { jsonCodec } from "../../src/mailbox/codec.ts";
import type { Engine } from "../../src/mailbox/engine.ts";
import { EngineMailbox } from "../../src/mailbox/engine_mailbox.ts";
import { systemRandom } from "../../src/random.ts";
import { BreakingProxy } from "../engines/_proxy.ts";
import { cleanUp as deleteStreams } from "../engines/nats/_nats.ts";
import { CLIENTS } from "./_calls.ts";
import {
  ALL_RULES,
  type Box,
  type Client,
  lookAt,
  type OpenQueue,
  ProxyBreaker,
  type Site,
  type Skips,
} from "./_site.ts";

const LOCAL = ["127.0.0.1", "localhost", "[::1]"];

/** Returns whether a server is on this machine. */
export function isLocal(url: string): boolean {
  return LOCAL.includes(new URL(url).hostname);
}

/** Proxies in front of a server on this machine, one for each process. */
class Proxies implements AsyncDisposable {
  readonly breakers: readonly ProxyBreaker[];
  readonly urls: readonly string[];
  readonly #proxies: readonly BreakingProxy[];

  private constructor(proxies: readonly BreakingProxy[], url: string) {
    this.#proxies = proxies;
    this.breakers = proxies.map((proxy) => new ProxyBreaker(proxy));
    this.urls = proxies.map(({ port }) => {
      // A URL of another scheme than HTTP keeps its host.
      const { host } = new URL(url);
      return url.replace(host, `127.0.0.1:${port}`);
    });
  }

  /** `url` has the port of the server. */
  static async before(url: string, defaultPort: number): Promise<Proxies> {
    const { port } = new URL(url);
    const proxies: BreakingProxy[] = [];
    for (let i = 0; i < CLIENTS; i++) {
      proxies.push(await BreakingProxy.before(Number(port) || defaultPort));
    }
    return new Proxies(proxies, url);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const proxy of this.#proxies) await proxy[Symbol.asyncDispose]();
  }
}

/** Puts a mailbox on each engine. */
function queueOf(
  name: string,
  { breakers }: Proxies,
  engines: readonly Engine<string>[],
): OpenQueue {
  const clients = engines.map((engine, i): Client => {
    const mailbox = new EngineMailbox<number, unknown, string>(name, engine, jsonCodec(), {
      log: silentLog,
    });
    return { mailbox, breaker: breakers[i]! };
  });
  return { clients, [Symbol.asyncDispose]: async () => await engines[0]!.drop!() };
}

/** A Redis server. */
export async function redisSite(url: string): Promise<Site> {
  const proxies = await Proxies.before(url, 6379);
  const options = { clock: systemClock, log: silentLog, callTimeoutMs: 5_000 };
  const links = await Promise.all(proxies.urls.map((each) => openRedisLink(each, options)));
  return {
    engine: "Redis",
    rules: ALL_RULES,
    async open(name) {
      const shared = { maxSize: Infinity, pollIntervalMs: 5_000 };
      const engines = links.map((link) => new RedisEngine(name, link, shared));
      // As a mailbox does when it opens: without the server's clock a lost receive cannot be released.
      for (const engine of engines) await engine.checkFormat();
      return queueOf(name, proxies, engines);
    },
    async [Symbol.asyncDispose]() {
      for (const link of links) await link.close();
      await proxies[Symbol.asyncDispose]();
    },
  };
}

/** A PostgreSQL server. */
export async function postgresSite(url: string, schema: string): Promise<Site> {
  const proxies = await Proxies.before(url, 5432);
  const shared = { callTimeoutMs: 5_000, clock: systemClock };
  const links: PostgresLink[] = [];
  for (const target of proxies.urls) {
    const options = { ...shared, target, schema, maxConnections: 2 };
    links.push(await openPostgresLink(options, true, silentLog));
  }
  const options = {
    ...shared,
    maxSize: Infinity,
    pollIntervalMs: 5_000,
    random: systemRandom,
    log: silentLog,
  };
  return {
    engine: "PostgreSQL",
    rules: ALL_RULES,
    open(name) {
      const engines = links.map((link) => new PostgresEngine(name, link, options));
      return Promise.resolve(queueOf(name, proxies, engines));
    },
    async [Symbol.asyncDispose]() {
      for (const link of links) await link.letGo();
      await proxies[Symbol.asyncDispose]();
    },
  };
}

/** What NATS does not keep to. */
export const NATS_SKIPS: Skips = {
  "a receipt handle is stale after a purge of another process": "the server has no fence",
  "a repeated nack or release returns what the first one did":
    "without a fence, a repetition could release the next delivery, so the engine refuses it",
  "messages arrive in their order": "released messages return in the order of their release",
  "a call happens as a whole": "JetStream stores and acknowledges messages one by one",
  "a late repetition changes nothing":
    "the server has no fence: a settlement is repeated at once, before another delivery",
  "the messages of a lost receive are available again":
    "the server does not tell which messages it delivered; they come back after 30 s",
};

/** A NATS server. */
export async function natsSite(url: string): Promise<Site> {
  const proxies = await Proxies.before(url, 4222);
  const connections = await Promise.all(proxies.urls.map((each) => {
    return connect({
      servers: each.replace("nats://", ""),
      maxReconnectAttempts: -1,
      reconnectTimeWait: 1,
      reconnectJitter: 1,
    });
  }));
  return {
    engine: "NATS",
    rules: {
      ...ALL_RULES,
      ordered: false,
      atomic: false,
      remembers: "removals",
      undoesReceives: false,
    },
    repeatsAtOnce: true,
    async look(mailbox) {
      const { count, messages, letters, letterCount } = await lookAt(mailbox);
      // A peek reads the stream, which does not know deliveries.
      const shown = messages?.map(({ serial, id }) => ({ serial, id }) as never);
      return { count, messages: shown, letters, letterCount };
    },
    async open(name) {
      const mailboxes: Box[] = [];
      for (const connection of connections) {
        mailboxes.push(await NatsMailbox.open<number>(connection, { name, log: silentLog }));
      }
      return {
        clients: mailboxes.map((mailbox, i) => ({ mailbox, breaker: proxies.breakers[i]! })),
        async [Symbol.asyncDispose]() {
          for (const mailbox of mailboxes) await mailbox.close();
          await deleteStreams(name, url);
        },
      };
    },
    async [Symbol.asyncDispose]() {
      for (const connection of connections) await connection.close();
      await proxies[Symbol.asyncDispose]();
    },
  };
}

/** What SQS does not keep to. */
export const SQS_SKIPS: Skips = {
  "a receipt handle is stale after a purge of another process": "SQS purges once a minute",
  "messages arrive in their order": "a standard queue has no order",
  "a call happens as a whole": "dead-lettering takes two requests",
  "a message with a stored id is refused": "a standard queue stores what is sent twice",
  "a release costs no attempt": "SQS counts every delivery",
  "a late repetition changes nothing":
    "a delete with a stale receipt handle succeeds, so a settlement is repeated at once",
  "the messages of a lost receive are available again":
    "they come back when their visibility timeout passes",
  "every message is in one place": "SQS cannot show its messages: they are counted",
};

/** An SQS server. */
export async function sqsSite(endpoint: string): Promise<Site> {
  const proxies = await Proxies.before(endpoint, 80);
  const clients = proxies.urls.map((each) => {
    return new SQSClient({
      endpoint: each,
      region: "us-east-1",
      credentials: { accessKeyId: "test", secretAccessKey: "very-secret" },
      maxAttempts: 1,
    });
  });
  return {
    engine: "SQS",
    rules: {
      ...ALL_RULES,
      ordered: false,
      atomic: false,
      undoesReceives: false,
      dedup: false,
      restoresAttempts: false,
    },
    repeatsAtOnce: true,
    repeatsRequests: true,
    savesNothing: true,
    async look(mailbox) {
      const letterCount = await mailbox.deadLetters.approximateCount();
      return { count: await mailbox.approximateCount(), letterCount };
    },
    async open(name) {
      const mailboxes: Box[] = [];
      for (const client of clients) {
        const options = { client, create: true, log: silentLog };
        mailboxes.push(await SqsMailbox.open<number>(name, options));
      }
      return {
        clients: mailboxes.map((mailbox, i) => ({ mailbox, breaker: proxies.breakers[i]! })),
        async [Symbol.asyncDispose]() {
          for (const mailbox of mailboxes) await mailbox.close();
        },
      };
    },
    async [Symbol.asyncDispose]() {
      for (const client of clients) client.destroy();
      await proxies[Symbol.asyncDispose]();
    },
  };
}
