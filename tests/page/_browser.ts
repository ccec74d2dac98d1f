/// <reference lib="dom" />

// Opens the live page of a group in a browser, and records errors and requests to other hosts.

import { assertEquals } from "@std/assert";
import axe from "axe-core";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { LoopGroup, type LoopGroupOptions, type Runnable, silentLog } from "../../mod.ts";
import type { HealthOptions } from "../../src/health/mod.ts";
import { deferred } from "../../src/_promises.ts";
import { freePort } from "../engines/_servers.ts";

/** A valid token. */
export const TOKEN = "0123456789abcdef";

/** A running group that serves its page. */
export class PageGroup implements AsyncDisposable {
  readonly group: LoopGroup;
  readonly port: number;
  readonly #run: Promise<unknown>;

  private constructor(group: LoopGroup, port: number, run: Promise<unknown>) {
    this.group = group;
    this.port = port;
    this.#run = run;
  }

  static async start(
    loops: readonly Runnable[],
    options: LoopGroupOptions & { readonly health?: HealthOptions } = {},
  ): Promise<PageGroup> {
    const port = options.healthPort ?? await freePort();
    const running = deferred();
    const group = new LoopGroup(loops, {
      healthHost: "127.0.0.1",
      log: silentLog,
      watchdogThresholdMs: false,
      ...options,
      healthPort: port,
    });
    group.on("phase", ({ phase }) => phase === "running" && running.resolve());
    const run = group.run({ installSignals: false });
    await Promise.race([running.promise, run]);
    return new PageGroup(group, port, run);
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.group.shutdown({ timeoutMs: 1_000 });
    await this.#run;
  }
}

/** A page in a browser context of its own. */
export class PageView implements AsyncDisposable {
  readonly page: Page;
  readonly #requests: string[] = [];
  readonly #errors: string[] = [];
  readonly #url: string;
  readonly #expected: RegExp | undefined;

  private constructor(page: Page, url: string, expected: RegExp | undefined) {
    this.page = page;
    this.#url = url;
    this.#expected = expected;
    page.on("request", (request) => this.#requests.push(request.url()));
    page.on("pageerror", (error) => this.#errors.push(String(error)));
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") {
        this.#errors.push(message.text());
      }
    });
  }

  /** Opens the page. `expected` matches errors that the test causes. */
  static async at(
    browser: Browser,
    url: string,
    options: BrowserContextOptions & { readonly expected?: RegExp } = {},
  ): Promise<PageView> {
    const { expected, ...contextOptions } = options;
    const context = await browser.newContext({ reducedMotion: "reduce", ...contextOptions });
    const page = await context.newPage();
    page.setDefaultTimeout(15_000);
    const view = new PageView(page, url, expected);
    await page.goto(url);
    await page.getByRole("heading", { name: "Loops" }).waitFor();
    return view;
  }

  /** Returns the row of a table with this header. */
  row(table: string | RegExp, name: string): ReturnType<Page["locator"]> {
    const row = this.page.getByRole("table", { name: table }).getByRole("row");
    return row.filter({ has: this.page.getByRole("rowheader", { name, exact: false }) });
  }

  /** Enters the token, by keyboard only. */
  async unlock(token: string): Promise<void> {
    const { page } = this;
    await page.getByRole("button", { name: "Unlock controls" }).press("Enter");
    await page.locator("#token:focus").waitFor();
    await page.keyboard.type(token);
    await page.keyboard.press("Enter");
  }

  /** Closes the page, and fails if it has logged an error or requested another host. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.page.context().close();
    const { origin } = new URL(this.#url);
    const foreign = this.#requests.filter((url) => !url.startsWith(origin) && !/^data:/.test(url));
    assertEquals(foreign, []);
    assertEquals(this.#errors.filter((text) => !this.#expected?.test(text)), []);
  }
}

/** Returns the accessibility violations that axe finds. */
export async function flaws(page: Page): Promise<readonly string[]> {
  await page.evaluate(axe.source);
  return await page.evaluate(async () => {
    const { violations } = await (globalThis as unknown as { axe: typeof axe }).axe.run();
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target)}`);
  });
}
