// The documentation site. `npm run docs` builds it, `npm run docs:dev` serves it.

import { relative } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { type DefaultTheme, defineConfigWithTheme, type UserConfig } from "vitepress";
import llms from "vitepress-plugin-llms";
import { browserModules } from "./theme/playground/browser_modules.ts";
import { BASE_VARIABLE, pageGroups, pageMarkdown, REFERENCE, repository, VERSION } from "./site.ts";

/** The theme's settings, and the version that the pages show. */
export interface SiteTheme extends DefaultTheme.Config {
  readonly version: string;
}

const docs = fileURLToPath(new URL("..", import.meta.url));
const groups = pageGroups();

const config: UserConfig<SiteTheme> = defineConfigWithTheme<SiteTheme>({
  title: "lastcall",
  description: "Message loops and small services that shut down gracefully, on Deno, Bun and Node.",
  lang: "en",
  base: process.env[BASE_VARIABLE] ?? "/",
  cleanUrls: true,
  rewrites: { "README.md": "index.md", ":folder/README.md": ":folder/index.md" },
  // `npm run docs` adds the reference to the build; addresses of the reader's own machine are examples.
  ignoreDeadLinks: [new RegExp(`(^|/)${REFERENCE}/`), /^https?:\/\/localhost/],
  markdown: {
    // The comments of the default themes have too little contrast.
    theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
    config: (md) => {
      const render = md.renderer.rules.link_open!;
      md.renderer.rules.link_open = (tokens, index, options, env, self) => {
        const token = tokens[index]!;
        // Without a target the router of the site would look for a page of its own.
        const inReference = token.attrGet("href")?.includes(`${REFERENCE}/`);
        const html = render(tokens, index, options, env, self);
        return inReference ? html.replace(/>$/, ' target="_self">') : html;
      };
    },
  },
  vite: {
    plugins: [
      {
        name: "lastcall:pages",
        enforce: "pre",
        transform: (code, id) =>
          id.endsWith(".md") && id.startsWith(docs)
            ? { code: pageMarkdown(code, relative(docs, id).replaceAll("\\", "/")), map: null }
            : undefined,
      },
      browserModules(),
      llms({ injectLLMHint: false }),
    ],
  },
  themeConfig: {
    version: VERSION,
    search: { provider: "local" },
    nav: groups.map(({ text, items }) => ({ text, link: items[0]?.link ?? "/" })),
    sidebar: groups.map(({ text, items }) => ({ text, items: [...items] })),
    socialLinks: [{ icon: "github", link: repository }],
  },
});

export default config;
