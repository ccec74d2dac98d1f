// Servers that a test may hurt, in one form for all kinds.

import { PostgresMailbox } from "../../src/engines/postgres/mod.ts";
import { RedisMailbox } from "../../src/engines/redis/mod.ts";
import { silentLog } from "../../src/log.ts";
import type { Mailbox } from "../../src/mailbox/mailbox.ts";
import { hasBinary, missing, PrivateServer, redis } from "../engines/_servers.ts";
import { privateOptions, PrivatePostgres } from "../engines/postgres/_private.ts";

/** How a server goes away. */
export type Outage = "killed" | "frozen";

/** A server of the test's own. */
export interface Site extends AsyncDisposable {
  open(name: string): Promise<Mailbox<number>>;
  begin(outage: Outage): Promise<void>;
  /** Resolves when the server answers again. */
  end(outage: Outage): Promise<void>;
}

/** One kind of site. */
export interface SiteKind {
  readonly name: string;
  readonly gate: { readonly skip: string | false };
  start(): Promise<Site>;
}

/** Short, so that a frozen server shows before it is back; by default both are 2 to 5 s. */
const options = { callTimeoutMs: 1_000, pollIntervalMs: 1_000, log: silentLog };

/** Both kinds of servers that come with an engine. */
export const siteKinds: readonly SiteKind[] = [
  {
    name: "Redis",
    gate: { skip: hasBinary(redis) ? false : missing(redis) },
    async start() {
      const server = await PrivateServer.start(redis);
      return {
        open: (name) => RedisMailbox.open<number>(server.url, { name, ...options }),
        begin: async (outage) => outage === "killed" ? await server.kill() : server.freeze(),
        end: async (outage) => outage === "killed" ? await server.start() : server.thaw(),
        [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
      };
    },
  },
  {
    name: "PostgreSQL",
    gate: privateOptions,
    async start() {
      const server = await PrivatePostgres.start();
      return {
        open: (name) => PostgresMailbox.open<number>(server.url, { name, ...options }),
        begin: async (outage) =>
          outage === "killed" ? await server.stop("SIGQUIT") : server.freeze(),
        end: async (outage) => outage === "killed" ? await server.start() : server.thaw(),
        [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
      };
    },
  },
];
