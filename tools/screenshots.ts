// Makes the screenshots of the live page for the documentation:
//
//   node tools/screenshots.ts [folder]

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import type { Browser, Page } from "playwright-core";
import { InMemoryMailbox, LoopGroup, MailboxLoop, silentLog, StepLoop } from "../mod.ts";
import { Board } from "../src/coordination/mod.ts";
import { CronLoop } from "../src/cron/mod.ts";
import { freePort } from "../tests/engines/_servers.ts";
import { SampleClock } from "../tests/page/_browser.ts";
import { findChromium, launchChromium } from "./chromium.ts";
import { root } from "./runtimes.ts";

const folder = process.argv[2] ?? join(root, "docs", "images");
const token = "a-token-for-pictures";
const WIDE = { width: 1_120, height: 880 };

/** The addresses of the processes. */
const addresses: string[] = [];

const path = findChromium();
if (path === undefined) throw new Error("No Chromium found: set LASTCALL_CHROMIUM");
await mkdir(folder, { recursive: true });
const browser = await launchChromium(path);
const { url, group, run, finish } = await kitchen();
const others = await replicas(url);
try {
  const light = await open(browser, url, "light");
  await unlock(light);
  const dark = await open(browser, url, "dark");
  await light.waitForTimeout(4_000); // fills the rates
  await shoot(light, "page_light");
  await shoot(dark, "page_dark");
  await light.getByRole("link", { name: "Messages" }).click();
  await light.getByLabel("State").selectOption("delayed");
  await light.getByRole("button", { name: /^order-/ }).first().click();
  await shoot(light, "page_messages");
  await light.getByRole("link", { name: /^Dead letters/ }).click();
  await light.getByLabel(/^Select mail/).first().check();
  await shoot(light, "page_dead_letters");
  await light.getByRole("link", { name: /^Replicas/ }).click();
  await shoot(light, "page_replicas");
  await light.getByRole("link", { name: "Overview" }).click();
  const stopped = group.shutdown();
  await light.getByText("Draining").first().waitFor();
  await light.waitForTimeout(4_000);
  await shoot(light, "page_draining");
  finish();
  await stopped;
  await run;
} finally {
  finish();
  await Promise.all(others.map((other) => other.shutdown()));
  await browser.close();
}

/** Starts a group: most orders take a moment, a few take long or are retried later, and some emails fail. */
async function kitchen() {
  const finished = new AbortController();
  const orders = new InMemoryMailbox<{ readonly dish: string; readonly table: number }>("orders");
  const emails = new InMemoryMailbox<{ readonly to: string; readonly subject: string }>("emails");
  const invoices = new InMemoryMailbox<number>("invoices");
  let isFast = true;
  const cook = (ms: number) =>
    new Promise<void>((resolve) => {
      if (isFast) return resolve();
      setTimeout(resolve, ms);
      finished.signal.addEventListener("abort", () => resolve());
    });
  const loops = [
    new MailboxLoop({
      name: "kitchen",
      mailbox: orders,
      concurrency: 8,
      backoff: { minMs: 900_000, maxMs: 900_000 },
      handler: async ({ body: { table } }, { attempt }) => {
        await cook(table === 40 ? 40_000 : 60 + table % 7 * 30);
        if (table === 13 && attempt === 1 && !isFast) throw new Error("the oven is cold");
      },
      log: silentLog,
    }),
    new MailboxLoop({
      mailbox: emails,
      concurrency: 4,
      deadLetter: { maxDeliveries: 1 },
      handler: async ({ body: { to } }) => {
        await cook(40);
        if (to.startsWith("nobody")) throw new Error(`550 5.1.1 ${to}: the address does not exist`);
      },
      log: silentLog,
    }),
    new MailboxLoop({ mailbox: invoices, handler: () => cook(900) }),
    new CronLoop({ name: "daily-report", schedule: "0 18 * * *", mailbox: invoices, body: 0 }),
    new StepLoop("nightly-cleanup", ({ sleep }) => sleep(3_600_000)),
  ];
  const board = new Board();
  await board.setState("kitchen-1", "running");
  await board.setState("kitchen-2", "running");
  await board.setState("kitchen-3", "shutting_down", {}, { force: true });
  const clock = new SampleClock();
  const port = await freePort();
  const group = new LoopGroup(loops, {
    healthPort: port,
    healthHost: "127.0.0.1",
    health: {
      ...{ token, board, clock },
      ...{ name: "kitchen-1", version: "2.4.1" },
      replicas: () => addresses,
    },
    shutdownTimeoutMs: 30_000,
    log: silentLog,
  });
  const run = group.run({ installSignals: false });
  while (group.health().phase !== "running") await new Promise((done) => setTimeout(done, 5));
  const url = `http://127.0.0.1:${port}/`;
  let next = 0;
  const dishes = ["tea", "soup", "bread", "cake"];
  const supply = async (count: number) => {
    for (let i = 0; i < count; i++) {
      const number = ++next;
      const body = { dish: dishes[number % 4]!, table: number % 41 };
      const headers = {
        source: "till-2",
        traceparent: `00-${String(number).padStart(32, "0")}-01`,
      };
      await orders.send(body, { id: `order-${number}`, headers });
      if (number % 9 === 0) {
        const to = number % 9_000 === 0 ? "nobody@example.com" : "guest@example.com";
        await emails.send({ to, subject: "Your order" }, { id: `mail-${number}` });
      }
    }
  };
  // One hour of work, whose rate rises and falls.
  for (let sample = 0; sample < 240; sample++) {
    const wave = 24 + 9 * Math.sin(sample / 19) + 4 * Math.sin(sample / 3.1) + sample % 5;
    if (sample % 60 === 40) await orders.pause();
    if (sample % 60 === 50) await orders.resume();
    await supply(Math.round(wave * 15));
    await clock.sample(url);
  }
  isFast = false;
  const timer = setInterval(() => {
    supply(3);
    if (next % 15 < 3) invoices.send(next);
  }, 100);
  const finish = () => {
    clearInterval(timer);
    finished.abort();
  };
  return { url, group, run, finish };
}

/** Starts two more processes of the kitchen. A third one does not answer. */
async function replicas(first: string): Promise<readonly LoopGroup[]> {
  const groups = await Promise.all(["kitchen-2", "kitchen-3"].map(async (name) => {
    const mailbox = new InMemoryMailbox<number>("orders");
    const handler = () => new Promise<void>((resolve) => setTimeout(resolve, 50));
    const port = await freePort();
    const group = new LoopGroup([new MailboxLoop({ name: "kitchen", mailbox, handler })], {
      healthPort: port,
      healthHost: "127.0.0.1",
      health: { name, version: "2.4.1" },
      log: silentLog,
    });
    void group.run({ installSignals: false });
    await mailbox.sendMany(Array.from({ length: 1_000 }, (_, i) => i));
    return { group, address: `http://127.0.0.1:${port}/` };
  }));
  const away = `http://127.0.0.1:${await freePort()}/`;
  addresses.push(first, ...groups.map(({ address }) => address), away);
  return groups.map(({ group }) => group);
}

async function open(browser: Browser, url: string, colorScheme: "light" | "dark"): Promise<Page> {
  const context = await browser.newContext({ colorScheme, viewport: WIDE });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  await page.goto(url);
  await page.getByRole("heading", { name: "Loops" }).waitFor();
  return page;
}

async function unlock(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Unlock controls" }).click();
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Unlock" }).click();
  await page.getByRole("button", { name: "Pause" }).waitFor();
}

async function shoot(page: Page, name: string): Promise<void> {
  await page.waitForTimeout(500);
  await page.screenshot({ path: join(folder, `${name}.png`) });
}
