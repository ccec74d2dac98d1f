/**
 * Node, by `process`.
 *
 * @module
 */

import type { Runtime } from "../src/runtime.ts";
import { processRuntime } from "./_process.ts";
import { serve } from "./_serve_node.ts";

/** The runtime adapter for Node. */
export const nodeRuntime: Runtime = { ...processRuntime("node"), serve };
