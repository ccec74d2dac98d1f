/**
 * Bun, by the `process` it shares with Node.
 *
 * @module
 */

import type { Runtime } from "../src/runtime.ts";
import { processRuntime } from "./_process.ts";

/** Loaded by those who serve. */
const serve: Runtime["serve"] = async (handler, options) => {
  const module = await import("./_serve_bun.ts");
  return await module.serve(handler, options);
};

/** The runtime adapter for Bun. */
export const bunRuntime: Runtime = processRuntime({ name: "bun", serve });
