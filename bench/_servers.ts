// The private servers of the benchmarks, with default settings and on free ports. They stop with the part, so nothing
// else uses them and nothing stays behind.

import { join } from "node:path";
import process from "node:process";
import { run } from "../tools/process.ts";
import { hasBinary, missing, nats, PrivateServer, redis } from "../tests/engines/_servers.ts";
import { binFolder, privateOptions, PrivatePostgres } from "../tests/engines/postgres/_private.ts";
import { noServer, SqsServer } from "../tests/engines/sqs/_server.ts";

/** A server to measure on. */
export interface BenchServer extends AsyncDisposable {
  /** Empty for engines without a server. */
  readonly url: string;
  /** Its name and version. */
  readonly version?: string;
}

/** Why there is no server. */
export interface NoServer {
  readonly missing: string;
}

/** Without snapshots, because the server forks for them at any time. */
const REDIS = {
  ...redis,
  args: (port: number, folder: string) => [
    ...["--port", `${port}`, "--bind", "127.0.0.1", "--dir", folder, "--save", ""],
  ],
};

/** Starts the server of an engine, or returns why there is none. */
export async function takeServer(engine: string): Promise<BenchServer | NoServer> {
  switch (engine) {
    case "redis":
    case "nats": {
      const kind = engine === "redis" ? REDIS : nats;
      if (!hasBinary(kind)) return { missing: missing(kind) };
      return await versioned(await PrivateServer.start(kind), kind.name, kind.binary);
    }
    case "postgres": {
      if (privateOptions.skip !== false) return { missing: privateOptions.skip };
      // The settings of the tests trade durability for speed.
      const server = await PrivatePostgres.start([]);
      return await versioned(server, "PostgreSQL", join(binFolder!, "postgres"));
    }
    case "sqs": {
      if (noServer) return { missing: noServer };
      Object.assign(process.env, { AWS_ACCESS_KEY_ID: "bench", AWS_SECRET_ACCESS_KEY: "bench" });
      const server = await SqsServer.start();
      return {
        url: server.endpoint,
        [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
      };
    }
    default:
      return { url: "", [Symbol.asyncDispose]: () => Promise.resolve() };
  }
}

async function versioned(
  server: AsyncDisposable & { readonly url: string },
  name: string,
  binary: string,
): Promise<BenchServer> {
  const { output } = await run(binary, ["--version"]);
  return {
    url: server.url,
    version: `${name} ${/\d+(\.\d+)+/.exec(output)?.[0] ?? "of an unknown version"}`,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

/** The URL of a mailbox of lastcall. */
export function mailboxUrl(engine: string, server: string, folder: string, name: string): string {
  switch (engine) {
    case "memory":
      return `memory:${name}`;
    case "sqlite":
      return `sqlite:${join(folder, `${name}.db`)}?queue=${name}`;
    case "denokv":
      return `denokv:${join(folder, `${name}.kv`)}?queue=${name}`;
    case "postgres":
      return `${server}?queue=${name}&schema=${name}`;
    case "sqs": {
      const query = new URLSearchParams({ endpoint: server, region: "us-east-1", create: "true" });
      return `sqs:${name}?${query}`;
    }
    default:
      return `${server}?queue=${name}`;
  }
}
