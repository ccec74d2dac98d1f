// A real browser, for the tests of the live page and for its pictures.

import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import process from "node:process";
import { type Browser, chromium } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/** Nothing but the page is to be asked for. */
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** The one that `LASTCALL_CHROMIUM` names, or one of this machine; undefined where there is none. */
export function findChromium(): string | undefined {
  const named = process.env["LASTCALL_CHROMIUM"];
  const folders = ["/usr/bin", ...(process.env["PATH"] ?? "").split(delimiter)];
  const usual = NAMES.flatMap((name) => folders.map((folder) => join(folder, name)));
  return [...(named === undefined ? [] : [named]), ...usual].find((path) => existsSync(path));
}

/** Starts it. */
export async function launchChromium(executablePath: string): Promise<Browser> {
  return await chromium.launch({ executablePath, headless: true, args: FLAGS });
}
