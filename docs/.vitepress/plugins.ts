// Changes to what VitePress reads: the Markdown of the repository, and a component of its theme.

import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import { pageMarkdown } from "./site.ts";

/** The part of a Vite plugin that is used here. */
interface SourcePlugin {
  readonly name: string;
  readonly enforce: "pre";
  readonly transform: (code: string, id: string) => string | undefined;
}

const docs = fileURLToPath(new URL("..", import.meta.url));

/** Turns the Markdown of the repository into that of the site. */
export const sitePages: SourcePlugin = {
  name: "lastcall:pages",
  enforce: "pre",
  transform: (code, id) =>
    id.endsWith(".md") && id.startsWith(docs)
      ? pageMarkdown(code, relative(docs, id).replaceAll("\\", "/"))
      : undefined,
};

const SEARCH_EDITS: readonly (readonly [before: RegExp, after: string])[] = [
  [
    /role="button"\s+:aria-owns="[^"]*"\s+aria-expanded="true"\s+aria-haspopup="listbox"/,
    'role="dialog" aria-modal="true"',
  ],
  [/:id="'localsearch-item-' \+ index"\s+:aria-selected="[^"]*"\s+role="option"/, 'role="none"'],
  [
    /:aria-label="\[\.\.\.p\.titles, p\.title\]\.join\(' > '\)"/,
    `role="option" :id="'localsearch-item-' + index" :aria-selected="selectedIndex === index"`,
  ],
  [/<kbd :aria-label/g, '<kbd role="img" :aria-label'],
  [/<span class="title-icon">/, '<span class="title-icon" aria-hidden="true">'],
];

/**
 * Corrects the roles in the search box of the theme: the box is a dialog and not a button, and the links
 * in it are the options. The build fails when a new version of the theme has other attributes.
 */
export const accessibleSearch: SourcePlugin = {
  name: "lastcall:accessible-search",
  enforce: "pre",
  transform: (code, id) =>
    id.endsWith("/VPLocalSearchBox.vue")
      ? SEARCH_EDITS.reduce((text, [before, after]) => {
        if (text.search(before) < 0) {
          throw new Error(`The search box of VitePress has no ${before}`);
        }
        return text.replace(before, after);
      }, code)
      : undefined,
};
