// npm run page: makes the live page of page/ one document, and writes it to src/health/_page.ts. Every
// install does so too: what is made is not kept in the repository.

import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { root } from "./runtimes.ts";

/** Where the page is, as a module. */
export const PAGE_MODULE = "src/health/_page.ts";

/** The text of the module that the sources make. */
export async function buildPage(): Promise<string> {
  const [shell, license, style, script] = await Promise.all([
    readFile(join(root, "page", "index.html"), "utf8"),
    readFile(join(root, "node_modules", "preact", "LICENSE"), "utf8"),
    bundle("style.css"),
    bundle("main.tsx"),
  ]);
  if (script.includes("</script")) throw new Error("The script would end its own element");
  // Who reads the page has no other file to find it in.
  const inline = `/*! Includes Preact.\n${license.trim()}\n*/${script}`;
  // By functions: in text that replaces, $& and the like have a meaning.
  const page = shell.replace(/^\s+/gm, "").trimEnd().replace("/*STYLE*/", () => style)
    .replace("/*SCRIPT*/", () => inline);
  const policy = [
    "default-src 'none'",
    `script-src ${hashOf(page, "script")}`,
    `style-src ${hashOf(page, "style")}`,
    "connect-src 'self'",
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ];
  return [
    "// Made by `npm run page` from the sources in page/: change those, and make it again.",
    "",
    "/** The live page: one document, with everything in it. */",
    `export const PAGE: string = ${JSON.stringify(page)};`,
    "",
    "/** What it may do: run its own script, in its own style, and ask its own host. */",
    `export const PAGE_POLICY: string = ${JSON.stringify(policy.join("; "))};`,
    "",
  ].join("\n");
}

async function bundle(name: string): Promise<string> {
  const { outputFiles: [file] } = await build({
    absWorkingDir: root,
    entryPoints: [join("page", name)],
    bundle: true,
    minify: true,
    format: "esm",
    target: ["chrome111", "firefox113", "safari16.4"],
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    charset: "utf8",
    logLevel: "warning",
    write: false,
  });
  return file!.text.trim();
}

/** The hash of what an element of the page holds, to the last space. */
function hashOf(page: string, element: "script" | "style"): string {
  const [, text = ""] = new RegExp(`<${element}[^>]*>([^]*?)</${element}>`).exec(page) ?? [];
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const text = await buildPage();
  await writeFile(join(root, PAGE_MODULE), text);
  console.log(`${PAGE_MODULE}: ${(text.length / 1_000).toFixed(1)} kB`);
}
