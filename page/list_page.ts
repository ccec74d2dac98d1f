// Loads the pages of a list of messages or dead letters.

import { useEffect, useState } from "preact/hooks";
import { type Access, send } from "./client.ts";
import type { Route } from "./route.ts";

/** The entries of one page. */
const PAGE_SIZE = 50;

interface ListAnswer<T> {
  readonly messages?: readonly T[];
  readonly letters?: readonly T[];
  readonly next?: number;
}

/** Returns the path of a list on the server. */
export function listPath({ view, mailbox = "", filters }: Route): string {
  const set = Object.entries(filters).filter(([, value]) => value !== "");
  return `${view}?${new URLSearchParams([["mailbox", mailbox], ...set])}`;
}

interface Loaded<T> {
  readonly entries: readonly T[];
  /** How many entries are before these. */
  readonly skip: number;
  readonly busy: boolean;
  /** The place of the next page; undefined on the last one. */
  readonly next?: number | undefined;
  /** How many entries were searched without a match. */
  readonly searched: number;
  readonly why?: string;
}

const NOTHING = { entries: [], skip: 0, busy: false, searched: 0 } as const;

/** One page of a list, and how to turn it. */
export interface Page<T> extends Loaded<T> {
  reload(): void;
  /** Goes to the next page, or back. */
  turn(to: "next" | "previous"): void;
}

/** Loads a page. With a filter it searches on until it has found something. */
export function usePage<T>(
  { route, token, onToken }: Access & { readonly token: string; readonly route: Route },
): Page<T> {
  const [skips, setSkips] = useState<readonly number[]>([0]);
  const [loads, setLoads] = useState(0);
  const [loaded, setLoaded] = useState<Loaded<T>>({ ...NOTHING, busy: true });
  const skip = skips.at(-1)!;
  const load = async (isCurrent: () => boolean) => {
    setLoaded((last) => ({ ...last, busy: true }));
    // An id is found at once, however many messages there are.
    const found = skip === 0 ? await lookUp<T>(route, token) : undefined;
    if (!isCurrent()) return;
    if (found) return setLoaded({ ...NOTHING, entries: [found] });
    for (let from = skip;;) {
      const path = `${listPath(route)}&skip=${from}&limit=${PAGE_SIZE}`;
      const outcome = await send<ListAnswer<T>>("GET", path, token);
      if (!isCurrent()) return;
      if (outcome.kind === "refused") return onToken(undefined);
      if (outcome.kind === "failed") {
        return setLoaded({ ...NOTHING, why: outcome.why });
      }
      const { messages, letters, next } = outcome.answer;
      const entries = messages ?? letters ?? [];
      if (entries.length > 0 || next === undefined || next <= from) {
        // Another process may have emptied the last page.
        if (entries.length === 0 && skips.length > 1) return setSkips(skips.slice(0, -1));
        return setLoaded({ ...NOTHING, entries, skip, next });
      }
      setLoaded({ ...NOTHING, busy: true, searched: next });
      from = next;
    }
  };
  useEffect(() => {
    let current = true;
    load(() => current);
    return () => void (current = false);
  }, [skips, loads]);
  return {
    ...loaded,
    reload: () => setLoads((last) => last + 1),
    turn: (to) => {
      if (loaded.busy) return;
      if (to === "previous") setSkips(skips.slice(0, -1));
      else if (loaded.next !== undefined) setSkips([...skips, loaded.next]);
    },
  };
}

/** Returns the message whose id is the searched text, if there is one. */
async function lookUp<T>({ view, mailbox = "", filters }: Route, token: string) {
  const { find = "", state = "" } = filters;
  if (view !== "messages" || find === "" || state !== "") return undefined;
  const path = `messages/${encodeURIComponent(find)}?mailbox=${encodeURIComponent(mailbox)}`;
  const outcome = await send<T>("GET", path, token);
  return outcome.kind === "done" ? outcome.answer : undefined;
}
