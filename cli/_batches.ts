/**
 * Puts what comes into batches: as many as are there, never waiting for more. Whoever takes a batch
 * holds up the source meanwhile.
 */
export async function* batches<T>(source: AsyncIterable<T>, max: number): AsyncGenerator<T[]> {
  const iterator = source[Symbol.asyncIterator]();
  let batch: T[] = [];
  let next = iterator.next();
  while (true) {
    const came = batch.length === 0 ? await next : await Promise.race([next, aTurn()]);
    if (came !== undefined && !came.done) {
      batch.push(came.value);
      next = iterator.next();
    }
    const full = batch.length >= max;
    if (batch.length > 0 && (full || came === undefined || came.done)) {
      yield batch;
      batch = [];
    }
    if (came?.done) return;
  }
}

/** What is there already comes before this. */
function aTurn(): Promise<undefined> {
  return new Promise((resolve) => setImmediate(resolve, undefined));
}
