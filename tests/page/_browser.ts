/// <reference lib="dom" />

// Opens the live page of a group in a browser, and records errors and requests to other hosts.

import { assertEquals } from "@std/assert";
import axe from "axe-core";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import {
  GroupFailedError,
  LoopGroup,
  type LoopGroupOptions,
  type Runnable,
  silentLog,
} from "../../mod.ts";
import type { HealthOptions } from "../../src/health/mod.ts";
import { deferred } from "../../src/_promises.ts";
import { type Cancel, type Clock, systemClock } from "../../src/clock.ts";
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
      health: { name: "worker-1", ...options.health },
    });
    group.on("phase", ({ phase }) => phase === "running" && running.resolve());
    const run = group.run({ installSignals: false });
    await Promise.race([running.promise, run]);
    return new PageGroup(group, port, run);
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/`;
  }

  /** Resolves when the run has ended. A test may let a loop fail. */
  async stopped(): Promise<void> {
    await this.#run.catch((error) => {
      if (!(error instanceof GroupFailedError)) throw error;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.group.shutdown({ timeoutMs: 1_000 });
    await this.stopped();
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
    await page.getByRole("navigation", { name: "Views" }).waitFor();
    return view;
  }

  /** Returns the row of a table with this header. */
  row(table: string | RegExp, name: string): ReturnType<Page["locator"]> {
    const row = this.page.getByRole("table", { name: table }).getByRole("row");
    return row.filter({ has: this.page.getByRole("rowheader", { name, exact: false }) });
  }

  /** Goes to a view by its link. */
  async go(name: "Overview" | "Messages" | "Dead letters" | "Replicas"): Promise<void> {
    const views = this.page.getByRole("navigation", { name: "Views" });
    await views.getByRole("link", { name }).press("Enter");
    await views.locator("a[aria-current=page]", { hasText: name }).waitFor();
  }

  /** Answers a confirmation by keyboard. */
  async confirm(question: string | RegExp, action: string): Promise<void> {
    const dialog = this.page.getByRole("dialog", { name: question });
    await dialog.getByRole("button", { name: action, exact: true }).press("Enter");
    await dialog.waitFor({ state: "detached" });
  }

  /** Waits for the result of an action, which has the focus. */
  async result(text: string): Promise<void> {
    await this.page.locator(".result:focus").getByText(text, { exact: true }).waitFor();
  }

  /** Enters the token, by keyboard only. */
  async unlock(token: string = TOKEN): Promise<void> {
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

/** The time between two samples of the history. */
const SAMPLE_MS = 15_000;

/** The clock of the system, but samples of the history are taken on demand. Each moves the time on by 15 s. */
export class SampleClock implements Clock {
  #task: (() => void) | undefined;
  /** Begins an hour ago, so that a full history ends now. */
  #offsetMs = -240 * SAMPLE_MS;

  now(): number {
    return systemClock.now() + this.#offsetMs;
  }

  monotonic(): number {
    return systemClock.monotonic() + this.#offsetMs + 3_600_000;
  }

  sleep(...args: Parameters<Clock["sleep"]>): Promise<void> {
    return systemClock.sleep(...args);
  }

  schedule(ms: number, task: () => void): Cancel {
    if (ms !== SAMPLE_MS) return systemClock.schedule(ms, task);
    this.#task = task;
    return () => this.#task = undefined;
  }

  /** Takes a sample. It is complete when the history at `url` has grown or moved on. */
  async sample(url: string): Promise<void> {
    const last = async () => (await (await fetch(`${url}history`)).json()).at;
    this.#offsetMs += SAMPLE_MS;
    const at = this.now();
    this.#task?.();
    while (await last() < at) await systemClock.sleep(1);
  }
}

/** Returns the size of the first event, in bytes. */
export async function eventSize(url: string): Promise<number> {
  const aborted = new AbortController();
  const { body } = await fetch(`${url}events`, { signal: aborted.signal });
  let text = "";
  for await (const bytes of body!.pipeThrough(new TextDecoderStream())) {
    text += bytes;
    if (/data: .*\n\n/.test(text)) break;
  }
  aborted.abort();
  return text.length;
}

/** Returns the accessibility violations that axe finds, in light and in dark mode. */
export async function flaws(page: Page): Promise<readonly string[]> {
  await page.evaluate(axe.source);
  const found: string[] = [];
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    found.push(
      ...await page.evaluate(async (mode) => {
        const { violations } = await (globalThis as unknown as { axe: typeof axe }).axe.run();
        return violations.map(({ id, nodes }) => {
          return `${mode}, ${id}: ${nodes.map(({ target }) => target)}`;
        });
      }, colorScheme),
    );
  }
  return found;
}
