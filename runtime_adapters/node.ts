/**
 * Node, by `process`.
 *
 * @module
 */

import type { Runtime } from "../src/runtime.ts";
import { processRuntime } from "./_process.ts";

/** The runtime adapter for Node. */
export const nodeRuntime: Runtime = processRuntime("node");
