import process from "node:process";

/**
 * The seed of the property tests of this process: a new one for every run. A failed property prints it;
 * `LASTCALL_SEED=<seed>` runs the same histories again.
 */
export const seed: number = Number(process.env["LASTCALL_SEED"] ?? Date.now() % 2 ** 31);
