import type { ChaosSite } from "../../../chaos/sites.ts";
import { privateOptions, PrivatePostgres } from "./_private.ts";

export const site: ChaosSite = {
  ...privateOptions,
  hasServer: true,
  undoneMs: 1_000, // three times the default of wal_writer_delay, and some time until the server is dead
  async start() {
    const server = await PrivatePostgres.start();
    return {
      url: server.url,
      server: {
        kill: () => server.stop("SIGQUIT"),
        start: () => server.start(),
        freeze: () => server.freeze(),
        thaw: () => server.thaw(),
      },
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    };
  },
};
