/**
 * Bun, by the `process` it shares with Node.
 *
 * @module
 */

import type { Runtime } from "../src/runtime.ts";
import { processRuntime } from "./_process.ts";

/** The runtime adapter for Bun. */
export const bunRuntime: Runtime = processRuntime("bun");
