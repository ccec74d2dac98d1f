import { QueueControl } from "../../mailbox/queue_control.ts";
import type { KvAtomic, KvEntry } from "./kv.ts";
import type { Keys } from "./_keys.ts";
import type { Store } from "./_store.ts";

/** The pause and the rate limit of a queue, and the entries that they were read from. */
export interface StoredControl {
  readonly control: QueueControl;
  readonly entries: readonly KvEntry[];
}

/** Reads the control of a queue. */
export async function readControl(
  store: Store,
  keys: Keys,
  action: string,
): Promise<StoredControl> {
  const entries = await store.getAll(action, [keys.controlled, keys.control]);
  const [mark, state] = entries;
  if (mark?.versionstamp === null) return { control: new QueueControl(), entries };
  // The version before this one stored a mark only.
  const value = state?.value ?? '{"pausedUntil":null}';
  return { control: QueueControl.parse(String(value)), entries };
}

/** Makes a commit fail when the control has changed since it was read. */
export function checkControl(atomic: KvAtomic, { entries }: StoredControl): void {
  for (const { key, versionstamp } of entries) atomic.check({ key, versionstamp });
}

/** Stores a control. Without a pause and a limit it leaves no entry. */
export function saveControl(
  atomic: KvAtomic,
  keys: Keys,
  control: QueueControl,
  now: number,
): void {
  const { paused, rateLimit } = control.stats(now);
  if (paused || rateLimit !== undefined) {
    atomic.set(keys.controlled, []).set(keys.control, JSON.stringify(control.state));
  } else atomic.delete(keys.controlled).delete(keys.control);
}

/** Changes the control of a queue, and wakes the receivers of all processes. */
export async function changeControl(
  store: Store,
  keys: Keys,
  action: string,
  change: (control: QueueControl, now: number) => void,
): Promise<void> {
  await store.retryConflicts(action, async () => {
    const now = store.clock.now();
    const stored = await readControl(store, keys, action);
    change(stored.control, now);
    return await store.commit(action, (atomic) => {
      checkControl(atomic, stored);
      saveControl(atomic, keys, stored.control, now);
      atomic.sum(keys.wakes, 1n);
    });
  });
}
