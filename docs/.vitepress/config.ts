// The documentation site. `npm run docs` builds it, `npm run docs:dev` serves it.

import { defineConfig, type UserConfig } from "vitepress";

const config: UserConfig = defineConfig({
  title: "lastcall",
  description: "Message loops and small services that shut down gracefully, on Deno, Bun and Node.",
  cleanUrls: true,
  rewrites: { "README.md": "index.md" },
  themeConfig: { search: { provider: "local" } },
});

export default config;
