/**
 * The source of randomness: ids, receipt handles and jitter. A seeded one makes a run reproducible.
 *
 * @module
 */

/** Makes random numbers and ids. */
export interface Random {
  /** Returns a number from 0 up to, but not including, 1. */
  number(): number;
  /** Returns a text that no other call returns, in any process. */
  id(): string;
}

/** Uses the generators of the runtime. */
export const systemRandom: Random = {
  number: () => Math.random(),
  id: () => crypto.randomUUID(),
};

/**
 * Returns a source that makes the same sequence for the same seed. For tests and simulations: its ids can be
 * guessed.
 */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  // mulberry32
  const number = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
  const hex = () => Math.floor(number() * 2 ** 32).toString(16).padStart(8, "0");
  return { number, id: () => hex() + hex() + hex() + hex() };
}
