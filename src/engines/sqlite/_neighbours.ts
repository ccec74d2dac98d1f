/**
 * Who waits in this process, by file and queue. Mailboxes on one file have nothing else in common that
 * could tell them of one another; an entry is there only while somebody waits.
 */
const waiting = new Map<string, Set<() => void>>();

/** Calls `listener` at every {@linkcode wake} of the same queue of the same file. */
export function listen(file: string, queue: string, listener: () => void): () => void {
  const key = `${file}\n${queue}`;
  const listeners = waiting.get(key) ?? new Set();
  waiting.set(key, listeners);
  const own = () => listener();
  listeners.add(own);
  return () => {
    listeners.delete(own);
    if (listeners.size === 0 && waiting.get(key) === listeners) waiting.delete(key);
  };
}

/** Messages of this queue may have become visible. */
export function wake(file: string, queue: string): void {
  for (const listener of waiting.get(`${file}\n${queue}`) ?? []) listener();
}
