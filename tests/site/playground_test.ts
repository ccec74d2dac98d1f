/// <reference lib="dom" />

// The playground in Chromium, in the built site. kitchen_test.ts tests its processes.

import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { assert, assertEquals, assertGreater, assertMatch } from "@std/assert";
import type { BrowserContextOptions, Locator, Page } from "playwright-core";
import { findChromium, launchChromium } from "../../tools/chromium.ts";
import { flaws } from "../page/_browser.ts";
import { siteBuild, siteUrl, SiteView } from "./_site.ts";

const path = findChromium();
const skip = path === undefined ? "no Chromium found: set LASTCALL_CHROMIUM" : false;
const browser = path === undefined ? undefined! : await launchChromium(path);
after(async () => await browser?.close());

/**
 * The playground in a page of its own. It watches whether the counts add up at every change, and remembers
 * what each worker has shown: at 10 times the speed a state may last for less than a step of a test.
 */
class Playground implements AsyncDisposable {
  readonly page: Page;
  readonly #view: SiteView;

  private constructor(view: SiteView) {
    this.#view = view;
    this.page = view.page;
  }

  static async open(options: BrowserContextOptions = {}): Promise<Playground> {
    const url = `${await siteUrl()}playground?speed=10`;
    const playground = new Playground(await SiteView.at(browser, url, options));
    await playground.begin();
    return playground;
  }

  /** Waits until the workers run, and begins to watch. */
  async begin(): Promise<void> {
    await this.worker(2).getByText("running").waitFor();
    await this.page.evaluate(watch);
  }

  static async openIdle(handlerMs?: number): Promise<Playground> {
    const playground = await Playground.open();
    await playground.idle(handlerMs);
    return playground;
  }

  /** Ends the flow of orders, and waits until all are handled. */
  async idle(handlerMs = 15_000): Promise<void> {
    await this.set("Orders per minute", 0);
    await this.set("Handler time", handlerMs);
    const idle = () => ["waiting", "delayed", "inFlight"].every((it) => countOf(it) === 0);
    await this.until(`(${idle})()`);
    await this.page.evaluate(() => void (globalThis.shown = {}));
  }

  worker(number: number): Locator {
    return this.page.getByRole("region", { name: `Worker ${number}` });
  }

  async click(name: string): Promise<void> {
    await this.page.getByRole("button", { name, exact: true }).click();
  }

  /**
   * Clicks a button, and again when it is called `then`. Runs in the page: a stop takes only a second there, and the
   * test may need longer to see the new name.
   */
  async clickTwice(name: string, then: string): Promise<void> {
    await this.page.getByRole("button", { name, exact: true }).evaluate(async (button, then) => {
      (button as HTMLElement).click();
      for (let frame = 0; button.ariaLabel !== then; frame++) {
        if (frame === 600) throw new Error(`The button is called ${button.ariaLabel}`);
        await new Promise(requestAnimationFrame);
      }
      // A signal that follows another one at once would count as the same one.
      await new Promise((resolve) => setTimeout(resolve, 100));
      (button as HTMLElement).click();
    }, then);
  }

  async set(name: string, value: number): Promise<void> {
    await this.page.getByRole("slider", { name, exact: true }).fill(String(value));
  }

  /** Sends an order, and returns the number of the worker that has received it, and the other. */
  async sendOrder(): Promise<readonly [holder: number, other: number]> {
    await this.click("Send an order");
    await this.page.getByRole("list", { name: "Orders of Worker" }).getByText(/^order-/).waitFor();
    return await this.worker(1).getByText(/^order-/).count() > 0 ? [1, 2] : [2, 1];
  }

  /** Waits until a worker shows, or has shown, a text. */
  async shows(number: number, text: RegExp): Promise<void> {
    await this.until(`shown["Worker ${number}"]?.some((it) => ${text}m.test(it))`);
  }

  async event(text: string | RegExp): Promise<void> {
    await this.page.getByRole("log").getByText(text).first().waitFor();
  }

  async count(name: string): Promise<number> {
    return Number(await this.page.locator(`[data-count=${name}]`).innerText());
  }

  /** Waits for an expression in the page. */
  async until(expression: string): Promise<void> {
    await this.page.waitForFunction(expression);
  }

  /** Fails if the counts did not add up at any time, or for what `SiteView` has seen. */
  async [Symbol.asyncDispose](): Promise<void> {
    const { checks, wrong } = await this.page.evaluate(() => globalThis.countChecks);
    await this.#view[Symbol.asyncDispose]();
    assertEquals(wrong, []);
    assertGreater(checks, 0);
  }
}

declare global {
  /** What each worker has shown. */
  var shown: Record<string, string[]>;
  var countChecks: { checks: number; readonly wrong: string[] };
  var countOf: (name: string) => number;
}

/** Runs in the page. */
function watch(): void {
  globalThis.countOf = (name) =>
    Number(document.querySelector(`[data-count=${name}]`)?.textContent);
  const parts = ["handled", "waiting", "delayed", "inFlight", "dead"];
  const result = globalThis.countChecks = { checks: 0, wrong: [] as string[] };
  const check = () => {
    result.checks++;
    const counts = parts.map(globalThis.countOf);
    const sent = globalThis.countOf("sent");
    if (counts.reduce((sum, it) => sum + it) !== sent) result.wrong.push(`${sent} = ${counts}`);
  };
  globalThis.shown = {};
  const record = () => {
    for (const worker of document.querySelectorAll<HTMLElement>(".worker")) {
      (globalThis.shown[worker.ariaLabel!] ??= []).push(worker.innerText);
    }
    check();
  };
  record();
  const options = { subtree: true, childList: true, characterData: true };
  new MutationObserver(record).observe(document.querySelector(".playground")!, options);
}

describe("the playground", { skip }, () => {
  it("orders flow as soon as the page is open, and workers handle them", async () => {
    await using playground = await Playground.open();
    await playground.until("countOf('handled') >= 3");
    await playground.event("Worker 1: running (the resources are ready)");
  });

  it("a killed worker's order is handled by another worker, as delivery 2", async () => {
    await using playground = await Playground.openIdle();
    const handled = await playground.count("handled");
    const [holder, other] = await playground.sendOrder();
    await playground.click(`Kill Worker ${holder}`);
    await playground.worker(holder).getByText("killed", { exact: true }).waitFor();
    await playground.shows(holder, /^killed$[^]*^lease \d\.\d s$/);
    await playground.shows(other, /^order-\d+\s+delivery 2$/);
    await playground.event(new RegExp(`^Worker ${other}: handled order-\\d+ \\(delivery 2\\)$`));
    await playground.worker(holder).getByText("No order in its hands.").waitFor();
    assertEquals(await playground.count("handled"), handled + 1);
    assertEquals(await playground.count("redelivered"), 1);
    await playground.click(`Start Worker ${holder}`);
    await playground.worker(holder).getByText("running").waitFor();
  });

  it("a stopped worker finishes its order and shows its report with exit code 0", async () => {
    await using playground = await Playground.openIdle(8_000);
    const handled = await playground.count("handled");
    const [holder] = await playground.sendOrder();
    await playground.click(`Stop Worker ${holder}`);
    await playground.shows(holder, /^draining$/);
    await playground.worker(holder).getByText("stopped", { exact: true }).waitFor();
    const report = await playground.worker(holder).getByLabel("Report of").innerText();
    assertMatch(
      report,
      /^drained in \d\.\d s of 10\.0 s \(SIGTERM\), exit code 0\n {2}orders: ended/,
    );
    assertEquals(await playground.count("handled"), handled + 1);
    assertEquals(await playground.count("redelivered"), 0);
  });

  it("a second click cancels the order, which another worker handles", async () => {
    await using playground = await Playground.openIdle();
    const handled = await playground.count("handled");
    const [holder, other] = await playground.sendOrder();
    await playground.clickTwice(`Stop Worker ${holder}`, `Stop now Worker ${holder}`);
    await playground.worker(holder).getByText(/^forced in .* exit code 143/).waitFor();
    await playground.worker(other).getByText(/^order-/).waitFor();
    await playground.until(`countOf('handled') === ${handled + 1}`);
  });

  it("a worker that was frozen for longer than its lease cannot acknowledge its order", async () => {
    await using playground = await Playground.openIdle();
    const handled = await playground.count("handled");
    const [holder, other] = await playground.sendOrder();
    await playground.click(`Freeze Worker ${holder}`);
    await playground.worker(holder).getByText("frozen", { exact: true }).waitFor();
    await playground.worker(holder).getByText("lease expired").waitFor();
    await playground.event(new RegExp(`^Worker ${other}: handled order-\\d+ \\(delivery 2\\)$`));
    await playground.click(`Continue Worker ${holder}`);
    await playground.event(
      new RegExp(`^Worker ${holder}: acknowledge of order-\\d+ refused: the lease of delivery 1`),
    );
    await playground.event(new RegExp(`^Worker ${holder}: lease lost`));
    await playground.worker(holder).getByText("running", { exact: true }).waitFor();
    assertEquals(await playground.count("handled"), handled + 1);
    assertEquals(await playground.count("refused"), 1);
  });

  it("a poison order is dead-lettered after three attempts", async () => {
    await using playground = await Playground.openIdle(500);
    await playground.click("Send a poison order");
    await playground.until("countOf('dead') === 1");
    await playground.event(/message dead-lettered \(poison-\d+: .*cannot be cooked/);
    assertEquals(await playground.count("redelivered"), 2);
  });

  it("added workers and a higher concurrency share the orders", async () => {
    await using playground = await Playground.openIdle();
    await playground.set("Concurrency of workers that you start", 4);
    await playground.click("Add a worker");
    await playground.click("Add a worker");
    await playground.worker(4).getByText("running").waitFor();
    await playground.click("Send ten");
    await playground.until("countOf('inFlight') === 10");
    assertEquals(await playground.worker(3).getByText(/^order-/).count(), 4);
  });

  it("time stands still while the tab is hidden", async () => {
    await using playground = await Playground.open();
    const { page } = playground;
    await page.clock.install(); // from here on the test can let time pass faster
    await page.reload();
    await playground.begin();
    await playground.idle();
    const [holder] = await playground.sendOrder();
    await page.evaluate(() => {
      Object.defineProperty(document, "hidden", { configurable: true, value: true });
    });
    const progress = playground.worker(holder).getByText(/^\d+ %$/);
    await page.clock.runFor(100); // the step that had begun
    const before = await progress.innerText();
    await page.clock.runFor(1_000);
    assertEquals(await progress.innerText(), before);
    await page.evaluate(() => Object.defineProperty(document, "hidden", { value: false }));
    await page.clock.runFor(200);
    assert(await progress.innerText() !== before);
  });

  it("is operated by keyboard, and the focus stays on a button whose name changes", async () => {
    await using playground = await Playground.openIdle();
    const { page } = playground;
    await page.getByRole("button", { name: "Stop Worker 1" }).focus();
    await page.keyboard.press("Enter");
    await playground.worker(1).getByText("stopped", { exact: true }).waitFor();
    await page.locator("button[aria-label='Start Worker 1']:focus").waitFor();
    await page.keyboard.press("Tab");
    await page.locator("button[aria-label='Kill Worker 1'][aria-disabled=true]:focus").waitFor();
    await page.keyboard.press("Enter");
    await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Enter");
    await playground.worker(1).getByText("running", { exact: true }).waitFor();
  });

  for (const colorScheme of ["light", "dark"] as const) {
    it(`has no accessibility violation in ${colorScheme} colours, in any state`, async () => {
      await using playground = await Playground.open({ colorScheme });
      await playground.set("Handler time", 15_000);
      await playground.click("Add a worker");
      await playground.click("Send ten");
      await playground.until("countOf('inFlight') >= 3");
      await playground.click("Kill Worker 1");
      await playground.click("Freeze Worker 2");
      await playground.click("Stop Worker 3");
      await playground.worker(3).getByText("stopped", { exact: true }).waitFor();
      await playground.worker(2).getByText("lease expired").first().waitFor();
      assertEquals(await flaws(playground.page), []);
    });
  }

  it("has no horizontal scroll from 320 px on, also with reports and long names", async () => {
    for (const width of [320, 768, 1_920]) {
      await using playground = await Playground.open({ viewport: { width, height: 800 } });
      await playground.click("Send ten");
      await playground.click("Stop Worker 1");
      await playground.worker(1).getByText("stopped", { exact: true }).waitFor();
      await playground.click("Kill Worker 2");
      const { scrollWidth, clientWidth } = await playground.page.evaluate(() => {
        const { scrollWidth, clientWidth } = document.documentElement;
        return { scrollWidth, clientWidth };
      });
      assert(scrollWidth <= clientWidth, `${scrollWidth} px in ${clientWidth} px`);
    }
  });

  it("is loaded by its own page only, is small, and contains no engine but memory", async () => {
    const folder = await siteBuild();
    const chunks = globSync("assets/**/*.js", { cwd: folder });
    const chunk = chunks.find((file) => /Playground\.[\w-]+\.js$/.test(file))!;
    assert(readFileSync(join(folder, chunk)).length < 150_000);
    const engines = /ioredis|jetstream|pg_notify|openKv|sqlite|SendMessageBatch/i;
    const named = chunks.filter((file) => !/\.md\.|SearchIndex/.test(file))
      .filter((file) => engines.test(readFileSync(join(folder, file), "utf8")));
    assertEquals(named, []);
    const requests: string[] = [];
    const page = await browser.newPage();
    page.on("request", (request) => requests.push(request.url()));
    await page.goto(`${await siteUrl()}stopping`);
    await page.waitForLoadState("networkidle");
    await page.close();
    assertEquals(requests.filter((url) => url.includes("Playground")), []);
  });
});
