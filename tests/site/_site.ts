// The site for the tests: one build for all files, and a server of its static files.

import { createHash } from "node:crypto";
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join } from "node:path";
import { assertEquals } from "@std/assert";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { addVersion, buildSite } from "../../tools/docs.ts";
import { root } from "../../tools/runtimes.ts";
import { readVersion } from "../../tools/version.ts";

/** The base of the site in the tests. */
export const BASE = "/lastcall/";

/** Builds are kept here: test files are separate processes, and a build takes seconds. */
const CACHE = join(root, "node_modules", ".cache", "lastcall-site");

/** All files that a build depends on. */
const INPUTS = [
  "{docs,src,cli,runtime_adapters}/**/*.*",
  "docs/.vitepress/{*.*,theme/**/*.*}",
  "tools/{docs,reference,markdown}.ts",
  "*.{ts,json}",
];

const TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".json": "application/json",
  ".md": "text/markdown; charset=utf-8",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
  ".woff2": "font/woff2",
};

let built: Promise<string> | undefined;
let site: Promise<string> | undefined;

/** Returns the folder of the build of the sources as they are, with its placeholders. */
export function siteBuild(): Promise<string> {
  return built ??= findOrBuild();
}

/** Returns the address of the site, `http://127.0.0.1:1234/lastcall/`. */
export function siteUrl(): Promise<string> {
  return site ??= siteBuild().then((folder) => {
    const into = join(folder, "..", "served");
    rmSync(into, { recursive: true, force: true });
    mkdirSync(into);
    addVersion(folder, into, BASE, readVersion(root));
    return serveFolder(into);
  });
}

/** Serves static files under {@linkcode BASE}, with clean URLs as static hosts do. Returns the address. */
export async function serveFolder(folder: string): Promise<string> {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://localhost");
    const path = join("/", decodeURIComponent(pathname).replace(BASE, "/"));
    const found = [path, `${path}.html`, join(path, "index.html")]
      .map((it) => join(folder, it))
      .find((it) => existsSync(it) && statSync(it).isFile());
    const file = pathname.startsWith(BASE) ? found : undefined;
    response.writeHead(file === undefined ? 404 : 200, {
      "content-type": TYPES[extname(file ?? "404.html")] ?? "application/octet-stream",
    });
    response.end(readFileSync(file ?? join(folder, "404.html")));
  });
  // Neither the server nor a connection of the browser keeps the test process alive.
  server.on("connection", (socket) => socket.unref());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  server.unref();
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}${BASE}`;
}

/** A page of the site in a browser context of its own. */
export class SiteView implements AsyncDisposable {
  readonly page: Page;
  readonly #errors: string[] = [];

  private constructor(page: Page, origin: string) {
    this.page = page;
    page.on("request", (request) => {
      const url = request.url();
      if (!url.startsWith(origin) && !/^(?:data|blob):/.test(url)) this.#errors.push(url);
    });
    page.on("pageerror", (error) => this.#errors.push(String(error)));
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) this.#errors.push(message.text());
    });
  }

  /** Opens a page and waits until its scripts have started. */
  static async at(
    browser: Browser,
    url: string,
    options: BrowserContextOptions = {},
  ): Promise<SiteView> {
    const context = await browser.newContext({ reducedMotion: "reduce", ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(15_000);
    const view = new SiteView(page, new URL(url).origin);
    await page.goto(url, { waitUntil: "networkidle" });
    return view;
  }

  /** Closes the page, and fails if it has logged an error or requested another host. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.page.context().close();
    assertEquals(this.#errors, []);
  }
}

async function findOrBuild(): Promise<string> {
  const hash = createHash("sha256");
  for (const file of globSync(INPUTS, { cwd: root, exclude: ["docs/.vitepress/cache"] }).sort()) {
    const path = join(root, file);
    if (statSync(path).isFile()) hash.update(file).update(readFileSync(path));
  }
  const name = hash.digest("hex").slice(0, 16);
  const folder = join(CACHE, name, "build");
  if (existsSync(folder)) return folder;
  mkdirSync(CACHE, { recursive: true });
  for (const old of readdirSync(CACHE)) rmSync(join(CACHE, old), { recursive: true, force: true });
  const unfinished = mkdtempSync(join(CACHE, "unfinished-"));
  await buildSite(join(unfinished, "build"));
  renameSync(unfinished, join(CACHE, name));
  return folder;
}
