// Engines that may be hurt: servers of our own on free ports, and files in folders of our own.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nats, PrivateServer, redis } from "../tests/engines/_servers.ts";
import { PrivatePostgres } from "../tests/engines/postgres/_private.ts";
import type { EngineName } from "./options.ts";

/** An engine under fire. */
export interface EngineUnderFire extends AsyncDisposable {
  /** What `openMailbox` takes. */
  readonly url: string;
  kill(): Promise<void>;
  /** Starts it again after a kill, with the data it had. */
  start(): Promise<void>;
  freeze(): void;
  thaw(): void;
}

/** Starts an engine. */
export async function startEngine(name: EngineName): Promise<EngineUnderFire> {
  switch (name) {
    case "redis":
      return underFire(await PrivateServer.start(redis), "?queue=chaos");
    case "postgres": {
      const server = await PrivatePostgres.start();
      return {
        url: `${server.url}?queue=chaos`,
        kill: () => server.stop("SIGQUIT"),
        start: () => server.start(),
        freeze: () => server.freeze(),
        thaw: () => server.thaw(),
        [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
      };
    }
    case "sqlite":
      return await aFile();
    case "nats":
      return underFire(await PrivateServer.start(nats), "?queue=chaos");
  }
}

function underFire(server: PrivateServer, parameters: string): EngineUnderFire {
  return {
    url: `${server.url}${parameters}`,
    kill: () => server.kill(),
    start: () => server.start(),
    freeze: () => server.freeze(),
    thaw: () => server.thaw(),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

async function aFile(): Promise<EngineUnderFire> {
  const folder = await mkdtemp(join(tmpdir(), "lastcall-chaos-"));
  const never = () => {
    throw new Error("A file cannot be away");
  };
  return {
    url: `sqlite:${join(folder, "chaos.db")}?queue=chaos`,
    kill: never,
    start: never,
    freeze: never,
    thaw: never,
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true, maxRetries: 5 }),
  };
}
