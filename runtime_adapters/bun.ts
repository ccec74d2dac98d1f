/**
 * Bun, by the `process` it shares with Node.
 *
 * @module
 */

import type { Runtime } from "../src/runtime.ts";
import { processRuntime } from "./_process.ts";
import { serve } from "./_serve_bun.ts";

/** The runtime adapter for Bun. */
export const bunRuntime: Runtime = { ...processRuntime("bun"), serve };
