// Finds loops and mailboxes by name, also those that the events leave out.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Status } from "../src/health/status.ts";
import { read } from "./client.ts";
import { several } from "./format.ts";

/** Fewer entries need no filter. */
export const FILTER_FROM = 10;
const POLL_MS = 5_000;

/** Returns the status with all loops and mailboxes while it is needed, and otherwise that of the events. */
export function useAll(status: Status, needed: boolean): Status {
  const [all, setAll] = useState<Status>();
  const { loops = 0, mailboxes = 0 } = status.leftOut ?? {};
  const reads = needed && loops + mailboxes > 0;
  useEffect(() => {
    if (!reads) return setAll(undefined);
    const poll = async () => {
      const found = await read<Status>("status");
      if (found !== undefined) setAll(found);
    };
    poll();
    const timer = setInterval(poll, POLL_MS);
    return () => clearInterval(timer);
  }, [reads]);
  return all ?? status;
}

/** Returns whether a name contains a text, whatever its case. */
export function contains(name: string, text: string): boolean {
  return name.toLowerCase().includes(text.toLowerCase());
}

/** Shows a field for the text that names contain, and the number of names found. */
export function Find(
  { noun, many, text, onText, found, children }: {
    readonly noun: string;
    readonly many?: string;
    readonly text: string;
    readonly onText: (text: string) => void;
    /** The number of entries; undefined without a filter. */
    readonly found: number | undefined;
    readonly children?: ComponentChildren;
  },
): JSX.Element {
  return (
    <div class="toolbar filters" role="search" aria-label={`Find a ${noun}`}>
      {children}
      <label class="find">
        <span class="unseen">Name of the {noun}</span>
        <input
          type="search"
          placeholder={`Name of the ${noun}`}
          value={text}
          onInput={({ currentTarget }) => onText(currentTarget.value)}
        />
      </label>
      {found !== undefined && <p role="status">{several(found, noun, many)} found</p>}
    </div>
  );
}
