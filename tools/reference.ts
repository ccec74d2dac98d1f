// The API reference of the site: `deno doc --html` of the entry points in deno.json.

import { globSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { entryPoints, repositoryUrl } from "../docs/.vitepress/site.ts";
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
    const up = "../".repeat(file.split(/[\\/]/).length - 1);
    writeFileSync(path, sitePage(readFileSync(path, "utf8"), up, icons));
  }
  const symbols = [...icons].map(([shape, id]) => `<symbol id="${id}">${shape}</symbol>`);
  writeFileSync(
    join(folder, "icons.svg"),
    `<svg xmlns="http://www.w3.org/2000/svg">${symbols.join("")}</svg>\n`,
  );
}

/** The folder of the sources, as `deno doc` escapes it in links. */
const SOURCES = pathToFileURL(root).href.replaceAll("/", "&#x2F;");

/**
 * Adapts a page: sources are links to the repository, examples import the package by the name that all
 * runtimes know, and each icon is stored once. Inline icons are two thirds of the 40 MB that `deno doc`
 * writes.
 */
function sitePage(html: string, up: string, icons: Map<string, string>): string {
  return html
    .replaceAll(
      new RegExp(`${SOURCES}([^"]*)`, "g"),
      (_, path: string) => repositoryUrl(path.replaceAll("&#x2F;", "/")),
    )
    .replaceAll("&quot;@lastcall/lastcall", "&quot;lastcall")
    .replaceAll(/(<svg[^>]*>)(.*?)<\/svg>/gs, (_, open: string, shape: string) => {
      const id = icons.get(shape) ?? `icon${icons.size}`;
      icons.set(shape, id);
      return `${open}<use href="${up}icons.svg#${id}"/></svg>`;
    })
    .replace("<html>", '<html lang="en">');
}
