// The API reference of the site: `deno doc --html` of the entry points, adapted to the site.

import {
  appendFileSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import {
  type EntryPoint,
  entryPoints,
  ICON,
  REFERENCE,
  repositoryUrl,
} from "../docs/.vitepress/site.ts";
import { run } from "./process.ts";
import { root, runtimeBinary } from "./runtimes.ts";

/** Writes the reference into a folder. */
export async function buildReference(folder: string): Promise<void> {
  await runDenoDoc(folder);
  const icons = new Map<string, string>();
  for (const file of globSync("**/*.html", { cwd: folder })) {
    const path = join(folder, file);
    writeFileSync(path, sitePage(readFileSync(path, "utf8"), file.replaceAll("\\", "/"), icons));
  }
  const symbols = [...icons].map(([shape, id]) => `<symbol id="${id}">${shape}</symbol>`);
  const sprite = `<svg xmlns="http://www.w3.org/2000/svg">${symbols.join("")}</svg>\n`;
  writeFileSync(join(folder, "icons.svg"), sprite);
  appendFileSync(join(folder, "page.css"), STYLE);
}

/**
 * Runs `deno doc` with a manifest of its own. It names pages and imports after the subpaths, so
 * `./lastcall/cron` in place of `./cron` makes it show `lastcall/cron`. For the subpath `.` it would
 * write a page without the symbols.
 */
async function runDenoDoc(folder: string): Promise<void> {
  const config = mkdtempSync(join(tmpdir(), "lastcall-reference-"));
  try {
    const exports = entryPoints.map(({ npm, source }) =>
      [`./${npm}`, `./${relative(config, join(root, source)).replaceAll("\\", "/")}`] as const
    );
    const manifest = { name: "lastcall", version: "0.0.0", exports: Object.fromEntries(exports) };
    writeFileSync(join(config, "deno.json"), JSON.stringify(manifest));
    const args = ["doc", "--html", "--no-npm", "--quiet", "--name=lastcall", `--output=${folder}`];
    const sources = entryPoints.map(({ source }) => join(root, source));
    const { code, output } = await run(runtimeBinary("deno"), [...args, ...sources], {
      cwd: config,
    });
    if (code !== 0) throw new Error(`deno doc ended with exit code ${code}: ${output}`);
  } finally {
    rmSync(config, { recursive: true, force: true });
  }
}

/** A link to a source, as `deno doc` escapes it. */
const SOURCES = new RegExp(`${pathToFileURL(root).href.replaceAll("/", "&#x2F;")}([^"]*)`, "g");

/**
 * Adapts a page: it names the entry point, sources are links to the repository, examples import the
 * package by the name that all runtimes know, names and roles are complete for screen readers, and each
 * icon is stored once. Inline icons are two thirds of the 40 MB that `deno doc` writes.
 */
function sitePage(html: string, path: string, icons: Map<string, string>): string {
  const up = "../".repeat(path.split("/").length - 1);
  const entry = entryPoints.findLast(({ page }) => `${REFERENCE}/${path}`.startsWith(page));
  const isModule = `${REFERENCE}/${path}` === `${entry?.page}index.html`;
  const intro = entry === undefined
    ? (path === "index.html" ? contents() : "<h1>All symbols</h1>")
    : (isModule ? `<h1>${entry.npm}</h1>` : "") + importNames(entry, up);
  return html
    .replace("<html>", '<html lang="en">')
    .replace("</head>", `<link rel="icon" href="${ICON}"></head>`)
    .replace(/<main[^>]*>/, (main) => main + intro)
    .replaceAll(SOURCES, (_, file: string) => repositoryUrl(file.replaceAll("&#x2F;", "/")))
    .replaceAll("&quot;@lastcall/lastcall", "&quot;lastcall")
    .replaceAll(/(<svg[^>]*>)(.*?)<\/svg>/gs, (_, open: string, shape: string) => {
      const id = icons.get(shape) ?? `icon${icons.size}`;
      icons.set(shape, id);
      return `${open}<use href="${up}icons.svg#${id}"/></svg>`;
    })
    // The separators of this list are no list items.
    .replace(
      /<ul class="breadcrumbs">.*?(?=<div class="flex items-center gap-2">)/s,
      (list) => list.replaceAll(/<(\/?)(?:ul|li)\b/g, "<$1span"),
    )
    .replace('<nav id="topnav">', '<nav id="topnav" aria-label="Path">')
    .replace('<div class="toc">', '<div class="toc" role="complementary" aria-label="This page">')
    .replaceAll('<nav class="topSymbols">', '<nav class="topSymbols" aria-label="Symbols">')
    .replaceAll('class="copyButton"', 'class="copyButton" aria-label="Copy"')
    .replaceAll('<code class="language-', '<code tabindex="0" class="language-')
    .replaceAll(
      '<div class="text-2xl leading-none break-all">',
      '<div class="text-2xl leading-none break-all" role="heading" aria-level="1">',
    );
}

/** The first page of the reference. That of `deno doc` does not list the entry points. */
function contents(): string {
  const items = entryPoints.map(({ npm }) => `<li><a href="${npm}/">${npm}</a></li>`);
  return `<h1>API reference</h1><ul>${items.join("")}</ul>`;
}

function importNames({ npm, jsr }: EntryPoint, up: string): string {
  return `<p>Import it from <code>${npm}</code>, or from <code>${jsr}</code> if you installed
<code>jsr:@lastcall/lastcall</code> under its own name
(<a href="${up}../api">names by runtime</a>).</p>`;
}

/** Widths for small screens, and colours with enough contrast. */
const STYLE = `
.ddoc > div:not(#categoryPanel) { min-width: 0; }
#content > main h1 { font-size: 1.5rem; font-weight: 700; }
#content > main > ul { line-height: 2; }
#content > main > p a, #content > main > ul a, .link, .breadcrumbs a { text-decoration: underline; }
.topSymbols h3, .topSymbols ul { display: none; }
@media (width < 640px) {
  #topnav { height: auto; }
  #topnav > div { flex-wrap: wrap; gap: 0.5rem; }
}
.namespaceItem a span, .documentNavigation a { opacity: 1 !important; }
html:not(.dark) :is(.contextLink, .td-ref, a code) { color: #1d4ed8 !important; }
html:not(.dark) :is(.td-kw, .text-optional) { color: #0e7490 !important; }
html:not(.dark) :is(.td-str, .token.string, .token.builtin, .text-Class) { color: #3d6300 !important; }
html:not(.dark) :is(.td-lit, .td-tp, .text-Interface) { color: #9a3412 !important; }
html:not(.dark) :is(.token.class-name, .token.function) { color: #be123c !important; }
html:not(.dark) :is(.token.comment, .type, .documentNavigation li li a) { color: #57534e !important; }
html:not(.dark) :is(.text-protected, .text-readonly) { color: #5b21b6 !important; }
html.dark :is(.type) { color: #a8a29e !important; }
html.dark :is(.text-protected, .text-readonly) { color: #c4b5fd !important; }
html.dark .td-ref { color: #60a5fa !important; }
`;
