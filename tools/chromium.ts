// Starts Chromium, for the tests and the screenshots of the live page.

import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import process from "node:process";
import { type Browser, chromium } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/** Prevents requests other than those of the page. */
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Returns the path in `LASTCALL_CHROMIUM`, or that of an installed Chromium, or undefined. */
export function findChromium(): string | undefined {
  const named = process.env["LASTCALL_CHROMIUM"];
  const folders = ["/usr/bin", ...(process.env["PATH"] ?? "").split(delimiter)];
  const usual = NAMES.flatMap((name) => folders.map((folder) => join(folder, name)));
  return [...(named === undefined ? [] : [named]), ...usual].find((path) => existsSync(path));
}

/** Starts the browser without a window. */
export async function launchChromium(executablePath: string): Promise<Browser> {
  return await chromium.launch({ executablePath, headless: true, args: FLAGS });
}
