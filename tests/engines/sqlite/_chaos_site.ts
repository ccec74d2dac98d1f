import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ChaosSite } from "../../../chaos/sites.ts";

export const site: ChaosSite = {
  skip: false,
  hasServer: false,
  async start() {
    const folder = await mkdtemp(join(tmpdir(), "lastcall-chaos-"));
    return {
      url: `sqlite:${join(folder, "chaos.db")}`,
      [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true, maxRetries: 5 }),
    };
  },
};
