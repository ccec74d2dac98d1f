import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Collects garbage now. */
export const collectGarbage: () => void = collector();

function collector(): () => void {
  const { Bun } = globalThis as { readonly Bun?: { gc(now: boolean): void } };
  if (Bun !== undefined) return () => Bun.gc(true);
  setFlagsFromString("--expose-gc");
  return runInNewContext("gc");
}
