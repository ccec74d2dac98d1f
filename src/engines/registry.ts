/**
 * The list of engines, the only place that names them all. `openMailbox`, the command, its doctor, the
 * conformance table and the chaos tests read it.
 *
 * @module
 */

import { countParam } from "./_kit/mailbox_url.ts";
import { definedOptions, type EngineRegistration } from "./_kit/registration.ts";
import { denoKv } from "./deno_kv/registration.ts";
import { nats } from "./nats/registration.ts";
import { postgres } from "./postgres/registration.ts";
import { redis } from "./redis/registration.ts";
import { sqlite } from "./sqlite/registration.ts";
import { sqs } from "./sqs/registration.ts";

/** Messages in the memory of the process, for tests and for work that may be lost with the process. */
const memory: EngineRegistration = {
  name: "memory",
  schemes: ["memory"],
  parameters: ["maxSize"],
  help: ["memory:orders?maxSize=100"],
  inProcess: true,
  starter: { url: (queue) => `memory:${queue}` },
  async open(url, options) {
    const { InMemoryMailbox } = await import("../mailbox/in_memory_mailbox.ts");
    const all = definedOptions({ ...options, maxSize: countParam(url, "maxSize") });
    return new InMemoryMailbox(url.path || undefined, all);
  },
};

/** All engines of the package. */
export const ENGINES: readonly EngineRegistration[] = [
  memory,
  sqlite,
  redis,
  postgres,
  nats,
  sqs,
  denoKv,
];

/** Returns the engine of a URL's scheme. */
export function engineOfScheme(scheme: string): EngineRegistration | undefined {
  return ENGINES.find(({ schemes }) => schemes.includes(scheme));
}
