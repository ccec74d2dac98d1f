// The theme of VitePress, with a menu of versions.

import { type Theme, withBase } from "vitepress";
import DefaultTheme from "vitepress/theme";
import { h } from "vue";
import "./style.css";
import { VersionMenu, VersionNote } from "./versions.ts";

const theme: Theme = {
  extends: DefaultTheme,
  Layout: () =>
    h(DefaultTheme.Layout, null, {
      "nav-bar-content-after": () => h(VersionMenu),
      "nav-screen-content-after": () => h(VersionMenu),
      "doc-before": () => h(VersionNote),
      // That of the theme has no main landmark.
      "not-found": () =>
        h("main", { class: "vp-doc not-found" }, [
          h("h1", "Page not found"),
          h("p", ["The address has changed, or this version has no such page."]),
          h("p", [h("a", { href: withBase("/") }, "Open the first page")]),
        ]),
    }),
};

export default theme;
