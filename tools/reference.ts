// The API reference of the site: `deno doc --html` of the entry points in deno.json.

import { globSync, readFileSync, writeFileSync } from "node:fs";
import { join, posix } from "node:path";
import { pathToFileURL } from "node:url";
import { entryPoints, REFERENCE, repositoryUrl } from "../docs/.vitepress/site.ts";
import { run } from "./process.ts";
import { root, runtimeBinary } from "./runtimes.ts";

/** Writes the reference into a folder. */
export async function buildReference(folder: string): Promise<void> {
  const sources = entryPoints.map(({ source }) => source);
  const args = ["doc", "--html", "--no-npm", "--quiet", "--name=lastcall", `--output=${folder}`];
  const { code, output } = await run(runtimeBinary("deno"), [...args, ...sources]);
  if (code !== 0) throw new Error(`deno doc ended with exit code ${code}: ${output}`);
  const icons = new Map<string, string>();
  for (const file of globSync("**/*.html", { cwd: folder })) {
    const path = join(folder, file);
    writeFileSync(path, sitePage(readFileSync(path, "utf8"), file, icons));
  }
  const symbols = [...icons].map(([shape, id]) => `<symbol id="${id}">${shape}</symbol>`);
  writeFileSync(
    join(folder, "icons.svg"),
    `<svg xmlns="http://www.w3.org/2000/svg">${symbols.join("")}</svg>\n`,
  );
}

/** A link to a source, as `deno doc` escapes it. */
const SOURCES = new RegExp(`${pathToFileURL(root).href.replaceAll("/", "&#x2F;")}([^"]*)`, "g");

/**
 * Adapts a page: it names its entry point, sources are links to the repository, examples import the
 * package by the name that all runtimes know, and each icon is stored once. Inline icons are two thirds
 * of the 40 MB that `deno doc` writes.
 */
function sitePage(html: string, path: string, icons: Map<string, string>): string {
  const parts = path.split(/[\\/]/);
  const up = "../".repeat(parts.length - 1);
  const subpath = parts.slice(0, -1).filter((part) => part !== "~").join("/");
  const entry = entryPoints.find(({ page }) => page === posix.join(REFERENCE, subpath, "/"));
  const names = `<p class="import">Import it from <code>${entry?.npm}</code>, or from
<code>${entry?.jsr}</code> if you installed that package from JSR
(<a href="${up}../api">names by runtime</a>).</p>`;
  return html
    .replace("<html>", '<html lang="en">')
    .replace(/<main[^>]*>/, (main) => subpath === "" && !path.includes("~") ? main : main + names)
    .replaceAll(SOURCES, (_, file: string) => repositoryUrl(file.replaceAll("&#x2F;", "/")))
    .replaceAll("&quot;@lastcall/lastcall", "&quot;lastcall")
    .replaceAll(/(<svg[^>]*>)(.*?)<\/svg>/gs, (_, open: string, shape: string) => {
      const id = icons.get(shape) ?? `icon${icons.size}`;
      icons.set(shape, id);
      return `${open}<use href="${up}icons.svg#${id}"/></svg>`;
    });
}
