// The theme of VitePress, with a menu of versions.

import type { Theme } from "vitepress";
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
    }),
};

export default theme;
