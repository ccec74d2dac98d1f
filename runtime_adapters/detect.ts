/**
 * Which of the three it is.
 *
 * @module
 */

import type { Runtime } from "../src/runtime.ts";
import { bunRuntime } from "./bun.ts";
import { denoRuntime } from "./deno.ts";
import { nodeRuntime } from "./node.ts";

/** The adapter for the runtime that this program runs on. Throws where it is none of the three. */
export function detectRuntime(): Runtime {
  // Deno and Bun also pretend to be Node, so they are asked for first.
  if ("Deno" in globalThis) return denoRuntime;
  if ("Bun" in globalThis) return bunRuntime;
  if ("process" in globalThis) return nodeRuntime;
  throw new Error(
    "No runtime is known here: there is no Deno, Bun or process. Pass a `runtime` in the options",
  );
}
