// npm run page: bundles page/ into one HTML document in src/health/_page.ts. That file is not in the
// repository; every install builds it.

import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { root } from "./runtimes.ts";

/** The module with the built page. */
export const PAGE_MODULE = "src/health/_page.ts";

/** Builds the page and returns the text of its module. */
export async function buildPage(): Promise<string> {
  const [shell, license, style, script] = await Promise.all([
    readFile(join(root, "page", "index.html"), "utf8"),
    readFile(join(root, "node_modules", "preact", "LICENSE"), "utf8"),
    bundle("style.css"),
    bundle("main.tsx"),
  ]);
  if (script.includes("</script")) {
    throw new Error("Cannot inline the script: it contains </script");
  }
  // The page is served without other files, so it must contain the license.
  const inline = `/*! Includes Preact.\n${license.trim()}\n*/${script}`;
  // Functions, because replacement strings would interpret $& and the like.
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
    "// Built by `npm run page` from page/. Do not edit.",
    "",
    "/** The live page as one HTML document. */",
    `export const PAGE: string = ${JSON.stringify(page)};`,
    "",
    "/** The content security policy: only its own script and style, and requests to its own host. */",
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

/** Returns the hash of the exact text of an element, for the content security policy. */
function hashOf(page: string, element: "script" | "style"): string {
  const [, text = ""] = new RegExp(`<${element}[^>]*>([^]*?)</${element}>`).exec(page) ?? [];
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const text = await buildPage();
  await writeFile(join(root, PAGE_MODULE), text);
  console.log(`${PAGE_MODULE}: ${(text.length / 1_000).toFixed(1)} kB`);
}
