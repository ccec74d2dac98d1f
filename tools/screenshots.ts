// Makes the screenshots of the live page for the documentation:
//
//   node tools/screenshots.ts [folder]

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import type { Browser, Page } from "playwright-core";
import { InMemoryMailbox, LoopGroup, MailboxLoop, silentLog, StepLoop } from "../mod.ts";
import { Board } from "../src/coordination/mod.ts";
import { freePort } from "../tests/engines/_servers.ts";
import { findChromium, launchChromium } from "./chromium.ts";
import { root } from "./runtimes.ts";

const folder = process.argv[2] ?? join(root, "docs", "images");
const token = "a-token-for-pictures";
const WIDE = { width: 1_120, height: 880 };

const path = findChromium();
if (path === undefined) throw new Error("No Chromium found: set LASTCALL_CHROMIUM");
await mkdir(folder, { recursive: true });
const browser = await launchChromium(path);
const { port, group, run, finish } = await kitchen();
try {
  const url = `http://127.0.0.1:${port}/`;
  const light = await open(browser, url, "light", WIDE);
  await unlock(light);
  const dark = await open(browser, url, "dark", WIDE);
  await light.waitForTimeout(12_000); // fills the chart of the rate
  await shoot(light, "page_light");
  await shoot(dark, "page_dark");
  const stopped = group.shutdown();
  await light.getByText("Draining").first().waitFor();
  await light.waitForTimeout(4_000);
  await shoot(light, "page_draining");
  finish();
  await stopped;
  await run;
} finally {
  finish();
  await browser.close();
}

/** Starts a group: most orders take a moment, a few take long, and some emails fail. */
async function kitchen() {
  const finished = new AbortController();
  const orders = new InMemoryMailbox<number>("orders");
  const emails = new InMemoryMailbox<number>("emails");
  const invoices = new InMemoryMailbox<number>("invoices");
  const cook = (ms: number) =>
    new Promise<void>((resolve) => {
      setTimeout(resolve, ms);
      finished.signal.addEventListener("abort", () => resolve());
    });
  const loops = [
    new MailboxLoop({
      name: "kitchen",
      mailbox: orders,
      concurrency: 8,
      handler: ({ body }) => cook(body % 60 === 0 ? 40_000 : 60 + body % 7 * 30),
    }),
    new MailboxLoop({
      mailbox: emails,
      concurrency: 4,
      deadLetter: { maxDeliveries: 1 },
      handler: async ({ body }) => {
        await cook(40);
        if (body % 90 === 0) throw new Error("550 5.1.1 the address does not exist");
      },
      log: silentLog,
    }),
    new MailboxLoop({ mailbox: invoices, handler: () => cook(900) }),
    new StepLoop("nightly-report", ({ sleep }) => sleep(3_600_000)),
  ];
  const board = new Board();
  await board.setState("kitchen-1", "running");
  await board.setState("kitchen-2", "running");
  await board.setState("kitchen-3", "shutting_down", {}, { force: true });
  const port = await freePort();
  const group = new LoopGroup(loops, {
    healthPort: port,
    healthHost: "127.0.0.1",
    health: { token, board },
    shutdownTimeoutMs: 30_000,
    log: silentLog,
  });
  const run = group.run({ installSignals: false });
  let next = 0;
  const supply = setInterval(() => {
    next += 3;
    orders.sendMany([next, next + 1, next + 2]);
    emails.send(next);
    if (next % 15 === 0) invoices.send(next);
  }, 100);
  while (group.health().phase !== "running") await new Promise((done) => setTimeout(done, 5));
  const finish = () => {
    clearInterval(supply);
    finished.abort();
  };
  return { port, group, run, finish };
}

async function open(
  browser: Browser,
  url: string,
  colorScheme: "light" | "dark",
  viewport: { readonly width: number; readonly height: number },
): Promise<Page> {
  const context = await browser.newContext({ colorScheme, viewport });
  const page = await context.newPage();
  await page.goto(url);
  await page.getByRole("heading", { name: "Loops" }).waitFor();
  return page;
}

async function unlock(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Unlock controls" }).click();
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Unlock" }).click();
  await page.getByRole("button", { name: "Drain" }).waitFor();
}

async function shoot(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: join(folder, `${name}.png`) });
}
