/**
 * Detects the runtime.
 *
 * @module
 */

import type { Runtime } from "../src/runtime.ts";
import { bunRuntime } from "./bun.ts";
import { denoRuntime } from "./deno.ts";
import { nodeRuntime } from "./node.ts";

/**
 * Returns the adapter of the runtime that this program runs on.
 *
 * @throws {Error} on a runtime other than Deno, Bun and Node.
 */
export function detectRuntime(): Runtime {
  // Deno and Bun have `process` too, so they come first.
  if ("Deno" in globalThis) return denoRuntime;
  if ("Bun" in globalThis) return bunRuntime;
  if ("process" in globalThis) return nodeRuntime;
  throw new Error(
    "No runtime is known here: there is no Deno, Bun or process. Pass `runtime` in the options.",
  );
}
