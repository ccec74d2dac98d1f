/**
 * The list of engines, the only place that names them all. `openMailbox`, the command, its doctor, the
 * conformance table and the chaos tests read it.
 *
 * @module
 */

import type { EngineRegistration } from "./_kit/registration.ts";
import { denoKv } from "./deno_kv/registration.ts";
import { memory } from "./memory.ts";
import { nats } from "./nats/registration.ts";
import { postgres } from "./postgres/registration.ts";
import { redis } from "./redis/registration.ts";
import { sqlite } from "./sqlite/registration.ts";
import { sqs } from "./sqs/registration.ts";

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
