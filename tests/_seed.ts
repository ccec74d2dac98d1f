import process from "node:process";

/**
 * The seed of the property tests of this process: a new one for every run. The names of the tests contain it, so
 * that a failure shows it; `LASTCALL_SEED=<seed>` runs the same inputs again.
 */
export const seed: number = seedOf(process.env["LASTCALL_SEED"]);

function seedOf(text = ""): number {
  if (text === "") return Math.floor(Math.random() * 2 ** 31);
  if (/^\d{1,10}$/.test(text)) return Number(text);
  throw new RangeError(`Invalid LASTCALL_SEED: expected a whole number, got "${text}"`);
}
