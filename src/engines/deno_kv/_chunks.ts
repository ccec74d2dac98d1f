/** The limits of one commit, less a reserve: checks, bytes of keys, bytes of values. */
const MAX_CHECKS = 90;
const MAX_KEY_BYTES = 70_000;
export const MAX_COMMIT_BYTES = 700_000;

/** The size of one part of a change, in bytes. */
export interface Weight {
  readonly keyBytes: number;
  readonly bytes: number;
}

/** Splits a change into chunks that fit into one commit each. */
export function chunksOf<T>(parts: readonly T[], weigh: (part: T) => Weight): T[][] {
  const chunks: T[][] = [];
  let chunk: T[] = [];
  let [keyBytes, bytes] = [0, 0];
  for (const part of parts) {
    const weight = weigh(part);
    keyBytes += weight.keyBytes;
    bytes += weight.bytes;
    const fits = chunk.length < MAX_CHECKS && keyBytes <= MAX_KEY_BYTES &&
      bytes <= MAX_COMMIT_BYTES;
    if (chunks.length === 0 || !fits) {
      chunks.push(chunk = []);
      ({ keyBytes, bytes } = weight);
    }
    chunk.push(part);
  }
  return chunks;
}
