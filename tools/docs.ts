// npm run docs: builds the documentation site into site/.

import { build } from "vitepress";
import { join } from "node:path";
import { root } from "./runtimes.ts";

await build(join(root, "docs"), { outDir: join(root, "site") });
