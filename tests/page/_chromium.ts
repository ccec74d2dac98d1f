// The browser of a test file. It closes after the tests.

import { after } from "node:test";
import type { Browser } from "playwright-core";
import { findChromium, launchChromium } from "../../tools/chromium.ts";

const path = findChromium();

/** Why the tests cannot run, or false. */
export const skip: string | false = path === undefined
  ? "no Chromium found: set LASTCALL_CHROMIUM"
  : false;

/** The browser. Tests without one are skipped. */
export const browser: Browser = path === undefined ? undefined! : await launchChromium(path);

after(async () => await browser?.close());
