// Extends leases from another thread, which loads this module by its URL.

import type { OffThreadExtender, OffThreadPlan } from "../../mailbox/engine.ts";
import { threadModuleUrl } from "../../runtime.ts";
import { ENGINES } from "../registry.ts";

interface ExtenderOptions {
  /** The name of the engine in the registry. */
  readonly engine: string;
  /** The options of its `openExtender`. */
  readonly options: unknown;
}

/** Returns the plan for an engine; undefined when a bundler has merged this module into another file. */
export function offThreadPlan(engine: string, options: unknown): OffThreadPlan | undefined {
  const module = threadModuleUrl(import.meta.url, "off_thread");
  return module === undefined
    ? undefined
    : { module, options: { engine, options } satisfies ExtenderOptions };
}

/** Opens the extender of an engine. Called on the other thread. */
export async function openExtender(
  { engine, options }: ExtenderOptions,
): Promise<OffThreadExtender> {
  const { openExtender } = ENGINES.find(({ name }) => name === engine)!;
  return await openExtender!(options as never);
}
