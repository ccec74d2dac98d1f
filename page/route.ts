// The view of the page, which the hash of its address names: `#/messages/orders?state=delayed`.

import { useEffect, useState } from "preact/hooks";

/** The views, with their titles. */
export const VIEWS = {
  overview: "Overview",
  messages: "Messages",
  "dead-letters": "Dead letters",
  replicas: "Replicas",
} as const;

/** The name of a view. */
export type View = keyof typeof VIEWS;

/** A view with its mailbox and its filters. */
export interface Route {
  readonly view: View;
  readonly mailbox?: string | undefined;
  readonly filters: Readonly<Record<string, string>>;
}

/** Returns the hash of a route. Empty filters are left out. */
export function hashOf({ view, mailbox, filters }: Partial<Route> & Pick<Route, "view">): string {
  const set = Object.entries(filters ?? {}).filter(([, value]) => value !== "");
  const path = mailbox === undefined ? view : `${view}/${encodeURIComponent(mailbox)}`;
  return `#/${path}${set.length > 0 ? `?${new URLSearchParams(set)}` : ""}`;
}

/** Returns the route of a hash; the overview for an unknown one. */
export function routeOf(hash: string): Route {
  const [, view = "", mailbox, query] = /^#\/([\w-]+)(?:\/([^?]*))?(?:\?(.*))?$/.exec(hash) ?? [];
  if (!Object.hasOwn(VIEWS, view)) return { view: "overview", filters: {} };
  return {
    view: view as View,
    mailbox: mailbox ? decoded(mailbox) : undefined,
    filters: Object.fromEntries(new URLSearchParams(query)),
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // typed by hand
  }
}

/** Returns the route of the address, and renders again when it changes. */
export function useRoute(): Route {
  const [route, setRoute] = useState(() => routeOf(location.hash));
  useEffect(() => {
    const follow = () => setRoute(routeOf(location.hash));
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return route;
}
