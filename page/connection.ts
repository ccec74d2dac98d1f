// The stream of events, which is there again by itself after it was lost.

import type { Status } from "../src/health/status.ts";

/** Where the app is mounted, whether or not its address ends in a slash. */
export const BASE: string = location.pathname.replace(/\/?$/, "/");

/** What is heard of a group. */
export interface Listener {
  onStatus(status: Status): void;
  /** True when nothing has come for a while. */
  onLost(lost: boolean): void;
}

/** Events come every second; a stream that ends and begins anew is no loss. */
const PATIENCE_MS = 3_500;
const AGAIN_MS = 2_000;

/** Listens for as long as the page is open. */
export function connect(listener: Listener): void {
  let patience: ReturnType<typeof setTimeout> | undefined;
  const expect = () => {
    clearTimeout(patience);
    patience = setTimeout(() => listener.onLost(true), PATIENCE_MS);
  };
  const hear = ({ data }: MessageEvent<string>) => {
    expect();
    listener.onLost(false);
    listener.onStatus(JSON.parse(data));
  };
  const open = () => {
    const source = new EventSource(`${BASE}events`);
    source.addEventListener("message", hear);
    source.addEventListener("end", hear);
    source.addEventListener("error", () => {
      // A browser comes back by itself after a lost connection, but not after an answer like 503.
      if (source.readyState !== EventSource.CLOSED) return;
      setTimeout(open, AGAIN_MS);
    });
  };
  expect();
  open();
}
