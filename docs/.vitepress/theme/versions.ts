/// <reference lib="dom" />

// The versions of the site. Each page reads `versions.json` of the root when it is shown, so that the
// pages of an old version know the versions that came later.

import { useData } from "vitepress";
import { type Component, computed, defineComponent, h, onMounted, shallowRef } from "vue";
import type { SiteVersions } from "../../../tools/docs.ts";
import type { SiteTheme } from "../config.ts";

const known = shallowRef<SiteVersions>();
let loading: Promise<void> | undefined;

/** Reads the list of versions once. Without it, as on the development server, there is no menu. */
async function load(root: string): Promise<void> {
  try {
    const response = await fetch(`${root}versions.json`);
    if (response.headers.get("content-type")?.includes("json")) known.value = await response.json();
  } catch (error) {
    console.info(`No menu of versions: ${error}`);
  }
}

/** Returns the version of the page, the address that all versions share, and the list of versions. */
function useVersions() {
  const { site, theme } = useData<SiteTheme>();
  const name = theme.value.version.split(".").slice(0, 2).join(".");
  const { base } = site.value;
  const root = base.endsWith(`/${name}/`) ? base.slice(0, -name.length - 1) : base;
  onMounted(() => loading ??= load(root));
  const versions = computed(() =>
    known.value?.versions.map((it) => {
      const isLatest = it.name === known.value?.latest;
      return {
        ...it,
        isLatest,
        isOwn: it.name === name,
        link: isLatest ? root : `${root}${it.name}/`,
      };
    }) ?? []
  );
  return { own: theme.value.version, versions };
}

/** A menu with a link to each version. */
export const VersionMenu: Component = defineComponent(() => {
  const { own, versions } = useVersions();
  const close = (menu: EventTarget | null) => (menu as HTMLDetailsElement).open = false;
  return () =>
    versions.value.length === 0 ? undefined : h("details", {
      class: "versions",
      onKeydown: (event: KeyboardEvent) => event.key === "Escape" && close(event.currentTarget),
      onFocusout: (event: FocusEvent) => {
        const menu = event.currentTarget as HTMLElement;
        if (!menu.contains(event.relatedTarget as Node | null)) close(menu);
      },
    }, [
      h("summary", { "aria-label": `Version ${own}` }, own),
      h(
        "ul",
        versions.value.map(({ name, version, link, isLatest, isOwn }) =>
          h("li", { key: name }, [
            h("a", { href: link, target: "_self", "aria-current": isOwn ? "true" : undefined }, [
              isLatest ? `${version} (latest)` : version,
            ]),
          ])
        ),
      ),
    ]);
});

/** A note on pages of versions other than the latest one. */
export const VersionNote: Component = defineComponent(() => {
  const { own, versions } = useVersions();
  return () => {
    const latest = versions.value.find(({ isLatest }) => isLatest);
    if (latest === undefined || latest.isOwn) return undefined;
    return h("aside", { class: "version-note warning custom-block", "aria-label": "Version" }, [
      h("p", [
        `This page describes version ${own}. The latest version is `,
        h("a", { href: latest.link, target: "_self" }, latest.version),
        ".",
      ]),
    ]);
  };
});
