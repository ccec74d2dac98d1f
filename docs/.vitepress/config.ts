// The documentation site. `npm run docs` builds it, `npm run docs:dev` serves it.

import process from "node:process";
import { type DefaultTheme, defineConfigWithTheme, type UserConfig } from "vitepress";
import llms from "vitepress-plugin-llms";
import { copyCommands } from "./console.ts";
import { accessibleSearch, sitePages } from "./plugins.ts";
import { BASE_VARIABLE, ICON, pageGroups, REFERENCE, repository, VERSION } from "./site.ts";
import { browserModules } from "./theme/playground/browser_modules.ts";

/** The theme's settings, and the version that the pages show. */
export interface SiteTheme extends DefaultTheme.Config {
  readonly version: string;
}

const groups = pageGroups();

/** An item of a checklist in Markdown. */
const UNTICKED = "[ ] ";

const config: UserConfig<SiteTheme> = defineConfigWithTheme<SiteTheme>({
  title: "lastcall",
  description: "Message loops and small services that shut down gracefully, on Deno, Bun and Node.",
  lang: "en",
  base: process.env[BASE_VARIABLE] ?? "/",
  head: [["link", { rel: "icon", href: ICON }]],
  cleanUrls: true,
  rewrites: { "README.md": "index.md", ":folder/README.md": ":folder/index.md" },
  // `npm run docs` adds the reference to the build; addresses of the reader's own machine are examples.
  ignoreDeadLinks: [new RegExp(`(^|/)${REFERENCE}/`), /^https?:\/\/localhost/],
  markdown: {
    codeTransformers: [copyCommands],
    // The comments of the default themes have too little contrast.
    theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
    config: (md) => {
      const render = md.renderer.rules.link_open!;
      md.renderer.rules.link_open = (tokens, index, options, env, self) => {
        // Without a target the router of the site would look for a page of its own.
        const inReference = tokens[index]?.attrGet("href")?.includes(`${REFERENCE}/`);
        const html = render(tokens, index, options, env, self);
        return inReference ? html.replace(/>$/, ' target="_self">') : html;
      };
      md.core.ruler.push("checkboxes", ({ tokens, Token }) => {
        for (const { type, content, children } of tokens) {
          const [first] = children ?? [];
          if (type !== "inline" || !content.startsWith(UNTICKED) || first === undefined) continue;
          first.content = first.content.slice(UNTICKED.length);
          const box = new Token("html_inline", "", 0);
          box.content = '<input type="checkbox" aria-label="Done"> ';
          children!.unshift(box);
        }
      });
    },
  },
  vite: { plugins: [sitePages, accessibleSearch, browserModules, llms({ injectLLMHint: false })] },
  themeConfig: {
    version: VERSION,
    search: { provider: "local" },
    nav: groups.map(({ text, items }) => ({ text, link: items[0]?.link ?? "/" })),
    sidebar: groups.map(({ text, items }) => ({ text, items: [...items] })),
    outline: { level: [2, 3] },
    externalLinkIcon: true,
    socialLinks: [{ icon: "github", link: repository }],
  },
});

export default config;
