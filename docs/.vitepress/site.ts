// What the site shows: the order of its pages, the entry points of the package, and how the Markdown of
// the repository becomes the Markdown of a page.

import { existsSync, globSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { fencedBlocks, MARKER } from "../../tools/markdown.ts";

/** The variable of the environment with the base URL. @default {"/"} */
export const BASE_VARIABLE = "LASTCALL_DOCS_BASE";

/** Stands for the version in a build, until the build is copied to its place. */
export const VERSION = "__lastcall_version__";

/** The folder of the API reference in the site. */
export const REFERENCE = "reference";

/** The icon of the site, as data so that browsers do not request a file. */
export const ICON: string = "data:image/svg+xml," + encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" ' +
    'fill="#3451b2"/><path d="M4 8l3 3 5-6" fill="none" stroke="#fff" stroke-width="2"/></svg>',
);

/** A page in the navigation. */
export interface PageLink {
  readonly text: string;
  readonly link: string;
}

/** A group of pages in the navigation. */
export interface PageGroup {
  readonly text: string;
  readonly items: readonly PageLink[];
}

/** An entry point of the package. */
export interface EntryPoint {
  /** The import name after `npm install lastcall`: `lastcall/cron`. */
  readonly npm: string;
  /** The import name after `deno add jsr:@lastcall/lastcall`. */
  readonly jsr: string;
  /** Its source: `src/cron/mod.ts`. */
  readonly source: string;
  /** Its page in the site: `reference/lastcall/cron/`. */
  readonly page: string;
}

const root = fileURLToPath(new URL("../..", import.meta.url));
const docs = join(root, "docs");
const readJson = (name: string) => JSON.parse(readFileSync(join(root, name), "utf8"));
const npm = readJson("package.json");
const jsr = readJson("deno.json");

/** The address of the repository. */
export const repository: string = npm.repository.url.replace(/^git\+|\.git$/g, "");

/** The entry points, in the order of the manifests. */
export const entryPoints: readonly EntryPoint[] = Object.entries<string>(jsr.exports)
  .map(([subpath, source]) => ({
    npm: posix.join(npm.name, subpath),
    jsr: posix.join(jsr.name, subpath),
    source: posix.normalize(source),
    page: posix.join(REFERENCE, npm.name, subpath, "/"),
  }));

/** The pages by group, in reading order. A page that is not listed is added to the last group. */
const ORDER: readonly (readonly [group: string, names: readonly string[]])[] = [
  ["Introduction", ["start", "playground", "comparison"]],
  ["Guides", [
    "loops",
    "stopping",
    "mailboxes",
    "messages",
    "cron",
    "leases",
    "engines",
    "services",
    "scripts",
    "agents",
    "coordination",
    "testing",
    "custom_engine",
  ]],
  ["Recipes", ["recipes/*"]],
  ["Operations", [
    "production",
    "operations",
    "health",
    "observability",
    "cli",
    "cli_operations",
    "mcp",
    "troubleshooting",
  ]],
  ["Reference", ["api", "upgrading", "migrating", "versioning", "benchmarks", "proof", "model"]],
];

/** Returns the groups of the navigation. The text of a page is its first heading. */
export function pageGroups(): readonly PageGroup[] {
  const names = globSync(["*.md", "recipes/*.md"], { cwd: docs })
    .map((path) => path.replaceAll("\\", "/").replace(/\.md$/, ""))
    .filter((name) => name !== "README")
    .sort((a, b) => placeInOverview(a) - placeInOverview(b) || a.localeCompare(b, "en"));
  const listed = new Set<string>();
  const groups = ORDER.map(([text, wanted]) => {
    const own = wanted.flatMap((it) => names.filter((name) => posix.matchesGlob(name, it)));
    own.forEach((name) => listed.add(name));
    return { text, own };
  });
  groups.at(-1)?.own.push(...names.filter((name) => !listed.has(name)));
  return groups.filter(({ own }) => own.length > 0)
    .map(({ text, own }) => ({ text, items: own.map(pageLink) }));
}

/** Returns where the README of a page's folder links to the page: that README comes first. */
function placeInOverview(name: string): number {
  const overview = join(docs, posix.dirname(name), "README.md");
  return existsSync(overview)
    ? readFileSync(overview, "utf8").indexOf(`](${posix.basename(name)}.md)`)
    : 0;
}

function pageLink(name: string): PageLink {
  const [, text = name] = /^# (.+)$/m.exec(readFileSync(join(docs, `${name}.md`), "utf8")) ?? [];
  return { text: text.replaceAll("`", ""), link: `/${name}`.replace(/README$/, "") };
}

/** Returns the address of a file of the repository, at the version that is built. */
export function repositoryUrl(path: string): string {
  const kind = /\.\w+$|LICENSE$/.test(path) ? "blob" : "tree";
  return `${repository}/${kind}/v${VERSION}/${path}`;
}

/**
 * Returns the Markdown of a page of the site: without the markers of the tests, and with links to the
 * repository or the reference in place of links out of `docs/`. Blocks in a row that have a marker
 * `<!-- tab: Node -->` become tabs.
 *
 * @param path The path of the page in `docs/`.
 */
export function pageMarkdown(markdown: string, path: string): string {
  const lines = markdown.split("\n");
  const page: string[] = [];
  let at = 0;
  let inTabs = false;
  for (const block of [...fencedBlocks(markdown), undefined]) {
    const prose = lines.slice(at, block && block.line - 1)
      .filter((line) => !MARKER.test(line.trim()))
      .map((line) => withSiteLinks(line, posix.dirname(path)));
    const tab = block?.markers.get("tab");
    const goesOn = inTabs && tab !== undefined && prose.every((line) => line.trim() === "");
    if (inTabs && !goesOn) page.push(":::");
    page.push(...prose);
    if (tab !== undefined && !goesOn) page.push("::: code-group");
    inTabs = tab !== undefined;
    if (block === undefined) break;
    const last = block.line + block.text.split("\n").length;
    const [fence = ""] = /^\s*`+/.exec(lines[block.line - 1] ?? "") ?? [];
    page.push(fence + block.language + (tab === undefined ? "" : ` [${tab}]`));
    page.push(...lines.slice(block.line, last + 1));
    at = last + 1;
  }
  return page.join("\n");
}

function withSiteLinks(line: string, folder: string): string {
  return line.replace(/`[^`]*`|(?<=\]\()[^)\s]+/g, (target) => {
    if (/^(?:`|#|\/|[a-z][a-z0-9+.-]*:)/i.test(target)) return target;
    const [place = "", anchor] = target.split("#");
    const file = posix.join("docs", folder, decodeURIComponent(place));
    // A README is the first page of its folder.
    if (file.startsWith("docs/")) {
      return target.replace(/(^|\/)README\.md(?=#|$)/, (_, slash: string) => slash || "./");
    }
    const entry = entryPoints.find(({ source }) => source === file);
    if (entry !== undefined) return `${posix.relative(folder, entry.page)}/`;
    return repositoryUrl(file) + (anchor === undefined ? "" : `#${anchor}`);
  });
}
