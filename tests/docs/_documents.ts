// The files that people follow, word by word.

import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Block, fencedBlocks } from "../../tools/markdown.ts";
import { root } from "../../tools/runtimes.ts";

/** A Markdown file and its fenced blocks. */
export interface Document {
  /** Relative to the root. */
  readonly path: string;
  readonly blocks: readonly Block[];
}

/** The README, every guide and the course of examples. */
export const documents: readonly Document[] = globSync(
  ["README.md", "docs/*.md", "examples/README.md"],
  { cwd: root },
).sort().map((path) => ({
  path: path.replaceAll("\\", "/"),
  blocks: fencedBlocks(readFileSync(join(root, path), "utf8")),
}));
