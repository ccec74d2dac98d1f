// Reads the fenced blocks, links and anchors of Markdown. remark-validate-links (with 195 other packages)
// would check the links of Markdown only, not those of HTML, and the blocks would still need this file.

/** A fenced block with the markers before it. */
export interface Block {
  /** The line number of the opening fence, from 1. */
  readonly line: number;
  /** The first word after the fence, as `ts` or `console`; empty if there is none. */
  readonly language: string;
  /** The other words, as `ignore`. */
  readonly attributes: readonly string[];
  readonly text: string;
  /**
   * Comments before the fence: `<!-- file: worker.ts -->` is `file` with the value `worker.ts`. The
   * values of a repeated marker are joined by newlines.
   */
  readonly markers: ReadonlyMap<string, string>;
}

/** A link to a file or a heading of the project. */
export interface Link {
  readonly line: number;
  readonly target: string;
}

const FENCE = /^(\s*)(`{3,})\s*(.*)$/;
/** A comment that tells how to test or show the next block: `<!-- file: worker.ts -->`. */
export const MARKER: RegExp = /^<!--\s*(\w+):\s*(.*?)\s*-->$/;

/** Returns the fenced blocks in order. */
export function fencedBlocks(markdown: string): readonly Block[] {
  const lines = markdown.split("\n");
  const blocks: Block[] = [];
  let markers = new Map<string, string>();
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? "";
    const [, indent = "", fence, info = ""] = FENCE.exec(line) ?? [];
    if (fence !== undefined) {
      const end = lines.findIndex((it, index) => index > at && it.trim() === fence);
      const last = end < 0 ? lines.length : end;
      const [language = "", ...attributes] = info.split(/\s+/);
      const inside = lines.slice(at + 1, last).map((it) => it.replace(indent, ""));
      blocks.push({ line: at + 1, language, attributes, text: inside.join("\n"), markers });
      at = last;
    }
    const [, name, value = ""] = MARKER.exec(line.trim()) ?? [];
    if (name !== undefined) {
      const before = markers.get(name);
      markers.set(name, before === undefined ? value : `${before}\n${value}`);
    } // Only comments and blank lines may stand between a marker and its block.
    else if (line.trim() !== "") markers = new Map();
  }
  return blocks;
}

/** Returns the links and images whose target is a file or a heading. */
export function localLinks(markdown: string): readonly Link[] {
  return prose(markdown).flatMap((text, index) =>
    [...text.matchAll(/\]\(\s*<?([^)\s>]+)>?[^)]*\)|\b(?:src|srcset|href)="([^"]+)"/g)]
      .map(([, inline, attribute]) => ({ line: index + 1, target: inline ?? attribute ?? "" }))
      .filter(({ target }) => !/^(?:[a-z][a-z0-9+.-]*:|\/\/)/i.test(target))
  );
}

/** Returns the anchors that GitHub gives to the headings. */
export function anchors(markdown: string): ReadonlySet<string> {
  const found = new Set<string>();
  for (const line of prose(markdown)) {
    const [, heading] = /^#{1,6}\s+(.*?)\s*#*$/.exec(line) ?? [];
    if (heading === undefined) continue;
    const words = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1");
    const slug = words.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, "").replace(/\s/g, "-");
    let anchor = slug;
    for (let again = 1; found.has(anchor); again++) anchor = `${slug}-${again}`;
    found.add(anchor);
  }
  return found;
}

/** Returns the lines without the text of fenced blocks and code spans. */
function prose(markdown: string): readonly string[] {
  let open: string | undefined;
  return markdown.split("\n").map((line) => {
    const fence = FENCE.exec(line)?.[2];
    if (open !== undefined) {
      if (line.trim() === open) open = undefined;
      return "";
    }
    if (fence !== undefined) {
      open = fence;
      return "";
    }
    return /^#/.test(line) ? line : line.replace(/`[^`]*`/g, "");
  });
}
