import process from "node:process";

const RUNTIMES = ["Node", "Bun", "Deno"] as const;

const here: typeof RUNTIMES[number] = "Deno" in globalThis
  ? "Deno"
  : process.versions["bun"] === undefined
  ? "Node"
  : "Bun";

/**
 * Returns the options of the test number `i` of a search for planted faults. Such a search tests the tests, which
 * are the same on every runtime, so each is made on one runtime and skipped by name on the others.
 */
export function shareOf(i: number): { readonly skip: string | false } {
  const runtime = RUNTIMES[i % RUNTIMES.length]!;
  return { skip: runtime === here ? false : `the search is made on ${runtime}` };
}
