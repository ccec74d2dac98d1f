/**
 * Puts what comes into batches: as many as are there, never waiting for more. Whoever takes a batch
 * holds up the source meanwhile. An aborted `signal` ends a wait with its reason.
 */
export async function* batches<T>(
  source: AsyncIterable<T>,
  max: number,
  signal: AbortSignal,
): AsyncGenerator<T[]> {
  const iterator = source[Symbol.asyncIterator]();
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
  aborted.catch(() => {}); // told by the wait, if there is one
  let batch: T[] = [];
  let next = iterator.next();
  while (true) {
    signal.throwIfAborted();
    const came = await Promise.race([next, aborted, ...(batch.length === 0 ? [] : [aTurn()])]);
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
