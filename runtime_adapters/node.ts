/**
 * Node, by `process`.
 *
 * @module
 */

import type { Runtime } from "../src/runtime.ts";
import { processRuntime } from "./_process.ts";

/** Loaded by those who serve. */
const serve: Runtime["serve"] = async (handler, options) => {
  const module = await import("./_serve_node.ts");
  return await module.serve(handler, options);
};

/** The runtime adapter for Node. */
export const nodeRuntime: Runtime = processRuntime({
  name: "node",
  serve,
  async missingServePackages() {
    const module = await import("./_serve_node.ts");
    return await module.missingServePackages();
  },
});
