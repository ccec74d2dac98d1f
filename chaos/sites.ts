// The engines that the chaos tests run on. An engine of the registry has a site when the file
// `tests/engines/<scheme>/_chaos_site.ts` exists; it exports the site as `site`.

import { existsSync } from "node:fs";
import { ENGINES } from "../src/engines/registry.ts";
import { hasBinary, missing, PrivateServer, type ServerKind } from "../tests/engines/_servers.ts";

/** A running engine that only the test uses. */
export interface ChaosEngine extends AsyncDisposable {
  /** The URL of its mailboxes, without parameters. */
  readonly url: string;
  /** The faults of a server; undefined for an engine without one. */
  readonly server?: {
    /** Ends the server as a crash does. */
    kill(): Promise<void>;
    /** Starts a killed server again, with its data. */
    start(): Promise<void>;
    /** Suspends the server. It keeps its connections and answers nothing. */
    freeze(): void;
    thaw(): void;
  };
}

/** How to start an engine for chaos tests. */
export interface ChaosSite {
  /** Why the engine cannot be started on this machine, or false. */
  readonly skip: string | false;
  /** False for an engine without a server, such as a file. It gets only the faults of workers. */
  readonly hasServer: boolean;
  /**
   * A crash of the server may undo deliveries of so many milliseconds before it, because the engine does not
   * wait until they are on the disk. @default {0}
   */
  readonly undoneMs?: number;
  /** Why the daily tests skip the faults of the server: the engine needs too long to recover. */
  readonly slow?: string;
  start(): Promise<ChaosEngine>;
}

/** The names of the engines that have a site: the first scheme of each. */
export const SITE_NAMES: readonly string[] = ENGINES.map(({ schemes }) => schemes[0]!)
  .filter((name) => existsSync(siteUrl(name)));

/** Loads the site of an engine. */
export async function loadSite(name: string): Promise<ChaosSite> {
  const { site } = await import(siteUrl(name).href);
  return site;
}

/** Returns the site of an engine whose server is one program. */
export function serverSite(kind: ServerKind): ChaosSite {
  return {
    skip: hasBinary(kind) ? false : missing(kind),
    hasServer: true,
    async start() {
      const server = await PrivateServer.start(kind);
      return {
        url: server.url,
        server,
        [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
      };
    },
  };
}

function siteUrl(name: string): URL {
  return new URL(`../tests/engines/${name}/_chaos_site.ts`, import.meta.url);
}
