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

/** What the comments of the sources show. */
export const comments: readonly Document[] = globSync(
  ["{mod.ts,{src,runtime_adapters,cli}/**/*.ts}"],
  { cwd: root },
).sort().map((path) => ({
  path: path.replaceAll("\\", "/"),
  blocks: fencedBlocks(commentsOf(readFileSync(join(root, path), "utf8"))),
}));

/** The text of comments, on the lines where it stands. */
function commentsOf(source: string): string {
  return source.split("\n").map((line) => /^\s*\* ?(?!\/)(.*)$/.exec(line)?.[1] ?? "").join("\n");
}

/** The README, every guide and recipe, and the course of examples. */
export const documents: readonly Document[] = globSync(
  // `**` matches no folder whose name begins with a dot: the generator of the site is left out.
  ["README.md", "docs/**/*.md", "examples/README.md"],
  { cwd: root },
).sort().map((path) => ({
  path: path.replaceAll("\\", "/"),
  blocks: fencedBlocks(readFileSync(join(root, path), "utf8")),
}));
