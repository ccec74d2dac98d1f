/// <reference lib="dom" />

import {
  existsSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import process from "node:process";
import { after, describe, it, test } from "node:test";
import {
  assert,
  assertEquals,
  assertGreater,
  assertMatch,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { parse } from "@babel/parser";
import { parse as parseYaml } from "yaml";
import config from "../../docs/.vitepress/config.ts";
import { entryPoints, pageGroups, pageMarkdown, repository } from "../../docs/.vitepress/site.ts";
import { findChromium, launchChromium } from "../../tools/chromium.ts";
import { addVersion } from "../../tools/docs.ts";
import { run } from "../../tools/process.ts";
import { root, runtimeBinary } from "../../tools/runtimes.ts";
import { readVersion } from "../../tools/version.ts";
import { flaws } from "../page/_browser.ts";
import { BASE, serveFolder, siteBuild, siteUrl, SiteView } from "./_site.ts";

const path = findChromium();
const skip = path === undefined ? "no Chromium found: set LASTCALL_CHROMIUM" : false;
const browser = path === undefined ? undefined! : await launchChromium(path);
after(async () => await browser?.close());

const read = (file: string) => readFileSync(join(root, file), "utf8");
const version = readVersion(root);
const links = pageGroups().flatMap(({ items }) => items);
const get = async (place: string) => await fetch(new URL(place, await siteUrl()));
const textOf = async (place: string) => await (await get(place)).text();

function assertLacks(text: string, pattern: RegExp, message?: string): void {
  assertEquals(pattern.exec(text)?.[0], undefined, message);
}

/** Returns a folder that is removed after the tests. */
function temporary(): string {
  const folder = mkdtempSync(join(tmpdir(), "lastcall-versions-"));
  after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test("every page of docs/ is in the navigation once, under its first heading", () => {
  const files = globSync(["docs/*.md", "docs/recipes/*.md"], { cwd: root })
    .map((file) => file.replaceAll("\\", "/").replace(/^docs|\.md$/g, ""))
    .filter((name) => name !== "/README")
    .map((name) => name.replace(/README$/, ""));
  assertGreater(files.length, 20);
  assertEquals(links.map(({ link }) => link).sort(), files.sort());
  assertEquals(links.find(({ link }) => link === "/stopping")?.text, "Graceful shutdown");
});

test("the first page links to every guide, also when it is read on GitHub", () => {
  const home = read("docs/README.md");
  const missing = links.filter(({ link }) =>
    !/^\/recipes\/./.test(link) &&
    !home.includes(`](${link.slice(1).replace(/\/$/, "/README")}.md)`)
  );
  assertEquals(missing, []);
});

test("links out of docs/ lead to the repository or the reference, others stay", () => {
  const markdown = "[a](../examples/README.md#b) [c](../src/cron/mod.ts) [d](e.md#f) `[g](../h)`";
  assertEquals(
    pageMarkdown(`${markdown} [i](#j) [k](https://l.test/../m) [n](../LICENSE)`, "o.md"),
    `[a](${repository}/blob/v__lastcall_version__/examples/README.md#b) ` +
      "[c](reference/lastcall/cron/) [d](e.md#f) `[g](../h)` [i](#j) [k](https://l.test/../m) " +
      `[n](${repository}/blob/v__lastcall_version__/LICENSE)`,
  );
  assertEquals(
    pageMarkdown(
      "[a](../../mod.ts) [b](../c.md) [d](README.md#e) [f](../g/README.md)",
      "recipes/d.md",
    ),
    "[a](../reference/lastcall/) [b](../c.md) [d](./#e) [f](../g/)",
  );
});

test("blocks with a tab marker become tabs, and other markers and attributes are left out", () => {
  const block = (info: string, text: string) => `\`\`\`${info}\n${text}\n\`\`\``;
  const source = [
    "<!-- tab: Node -->\n<!-- skip: why -->\n",
    block("console", "$ a"),
    "\n<!-- tab: Bun -->\n",
    block("console", "$ <!-- tab: b -->"),
    "\nText\n\n<!-- file: c.ts -->\n",
    block("ts ignore", "c();"),
  ].join("\n");
  assertEquals(
    pageMarkdown(source, "a.md").replaceAll(/\n+/g, "\n").trim(),
    [
      "::: code-group",
      block("console [Node]", "$ a"),
      block("console [Bun]", "$ <!-- tab: b -->"),
      ":::\nText",
      block("ts", "c();"),
    ].join("\n"),
  );
});

test("the build checks all links to pages, and leaves out only the reference and the reader's machine", () => {
  const { ignoreDeadLinks } = config;
  assert(Array.isArray(ignoreDeadLinks), "all links are checked");
  const isIgnored = (link: string) =>
    ignoreDeadLinks.some((it) => it instanceof RegExp && it.test(link));
  assertEquals(
    ["./nowhere", "./recipes/nowhere", "/preference"].filter(isIgnored),
    [],
  );
});

describe("the built site", () => {
  it("the site answers every page of the navigation with its heading", async () => {
    for (const { text, link } of links) {
      const response = await get(`.${link}`);
      assertEquals(response.status, 200, link);
      assertStringIncludes(await response.text(), `<title>${text.replace("&", "&amp;")}`, link);
    }
    assertEquals((await get("nowhere")).status, 404);
  });

  it("no link and no image of the site leads nowhere", async () => {
    await siteUrl();
    const folder = join(await siteBuild(), "..", "served");
    const pages = globSync("**/*.html", { cwd: folder, exclude: [version.slice(0, 3)] });
    assertGreater(pages.length, 500);
    const wrong = new Set<string>();
    const known = new Map<string, boolean>();
    for (const page of pages) {
      const html = readFileSync(join(folder, page), "utf8");
      for (const [, escaped = ""] of html.matchAll(/\s(?:href|src)="([^"]*)"/g)) {
        const target = escaped.replaceAll("&#x2F;", "/").replaceAll("&amp;", "&");
        const url = new URL(target, `http://site.test${BASE}${page.replaceAll("\\", "/")}`);
        const place = url.origin + url.pathname;
        if (!known.has(place)) known.set(place, leads(folder, place));
        if (!known.get(place)) wrong.add(`${page}: ${target}`);
      }
    }
    assertGreater(known.size, 1_000);
    assertEquals([...wrong], []);
  });

  it("the site names no folder of this machine and no placeholder", async () => {
    await siteUrl();
    const folder = join(await siteBuild(), "..", "served");
    const files = globSync("**/*.{html,js,css,json,md,txt,svg}", { cwd: folder });
    const found = files.filter((file) => {
      const text = readFileSync(join(folder, file), "utf8");
      return text.includes(root) || text.includes("__lastcall") || text.includes("file:&#x2F;");
    });
    assertEquals(found, []);
  });

  it("llms.txt lists every page, and each is there as Markdown without the markers of tests", async () => {
    const index = await textOf("llms.txt");
    const full = await textOf("llms-full.txt");
    for (const { link, text } of links) {
      const place = link.replace(/^\/|\/$/g, "");
      assertStringIncludes(index, `[${text}](${BASE}${place}.md)`);
      const response = await get(`${place}.md`);
      assertEquals(response.status, 200, link);
      const page = await response.text();
      assertMatch(page, new RegExp(`^# .*${text.split(" ")[0]}`, "m"));
      assertLacks(page, /^<!-- \w+: /m, link);
      assertLacks(page, /^```ts ignore/m, link);
      assertLacks(page, /\]\(\.\.\/(?:examples|src|[A-Z]+\.md)/, link);
      const [first = ""] = /^## .+$/m.exec(page) ?? [];
      assertStringIncludes(full, first);
    }
  });

  it("code is highlighted, and neither markers nor attributes of blocks are shown", async () => {
    const page = await textOf("stopping");
    assertMatch(page, /<div class="language-ts[^>]*>.*?<span style="--shiki-light/s);
    assertMatch(page, /<div class="language-console/);
    assertLacks(page, /<span class="lang">[^<]*ignore/);
    for (const { link } of links) assertLacks(await textOf(`.${link}`), /&lt;!--|<!-- \w+: /);
  });
});

/** True if the address is a file of the site or of the repository, or belongs to another host. */
function leads(folder: string, place: string): boolean {
  const isFile = (file: string) => existsSync(file) && statSync(file).isFile();
  const inRepository = /^.*\/(?:blob|tree)\/v[^/]+\/(.*)$/.exec(
    place.startsWith(repository) ? place : "",
  )?.[1];
  if (inRepository !== undefined) return existsSync(join(root, inRepository));
  if (!place.startsWith("http://site.test/")) return true;
  const own = decodeURIComponent(place.slice(`http://site.test${BASE}`.length));
  return place.startsWith(`http://site.test${BASE}`) &&
    [own, `${own}.html`, join(own, "index.html")].some((it) => isFile(join(folder, it)));
}

describe("the API reference", () => {
  it("the overview lists the entry points of both manifests with the names to import", () => {
    const rows = read("docs/api.md").split("\n")
      .map((line) => line.split("|").map((cell) => cell.trim()))
      .filter(([, npm]) => /^`lastcall/.test(npm ?? ""))
      .map(([, npm, jsr, , link]) => [npm, jsr, /\((.*)\)/.exec(link ?? "")?.[1]]);
    const npm = Object.keys(JSON.parse(read("package.json")).exports);
    const jsr = Object.entries<string>(JSON.parse(read("deno.json")).exports);
    assertEquals(npm, jsr.map(([subpath]) => subpath));
    assertEquals(
      rows,
      jsr.map(([subpath, source]) => [
        `\`${subpath.replace(".", "lastcall")}\``,
        `\`${subpath.replace(".", "@lastcall/lastcall")}\``,
        source.replace("./", "../"),
      ]),
    );
  });

  it("every entry point has a page with its import names and its symbols", async () => {
    for (const { npm, jsr, page } of entryPoints) {
      const html = await textOf(page);
      assertStringIncludes(html, `<h1>${npm}</h1>`);
      assertStringIncludes(html, `<code>${jsr}</code>`);
      assertMatch(html, /class="namespaceItem"/, `${npm} has symbols`);
    }
    const symbol = await textOf("reference/lastcall/cron/~/CronLoop.html");
    assertStringIncludes(symbol, "import { CronLoop } from &quot;lastcall/cron&quot;;");
    assertStringIncludes(symbol, `${repository}/blob/v${version}/src/cron/`);
    assertLacks(symbol, /@lastcall\/lastcall&quot;/);
  });

  it("the reference has the names that an entry point exports, and no others", async () => {
    for (const { npm, source, page } of entryPoints) {
      const { program } = parse(read(source), { sourceType: "module", plugins: ["typescript"] });
      // A second name of an export, as `A as B` after `A`, has no page of its own.
      const exported = program.body.flatMap((it) => {
        if (it.type !== "ExportNamedDeclaration") return [];
        const declared = it.declaration && "id" in it.declaration ? [it.declaration.id] : [];
        const variables = it.declaration?.type === "VariableDeclaration"
          ? it.declaration.declarations.map(({ id }) => id)
          : [];
        const named = it.specifiers.map((specifier) =>
          "local" in specifier ? specifier.local : specifier.exported
        );
        return [...named, ...declared, ...variables];
      }).map((it) => it && "name" in it ? it.name : "");
      const shown = globSync("*.html", { cwd: join(await siteBuild(), page, "~") })
        .map((file) => file.replace(/\.html$/, ""))
        .filter((name) => !name.includes("."));
      assertEquals(shown.sort(), [...new Set(exported)].sort(), npm);
    }
  });
});

/** Returns a build of one page, which names its base, its class and its version. */
function smallBuild(): string {
  const folder = temporary();
  writeFileSync(
    join(folder, "index.html"),
    "/__lastcall_base__/a ___lastcall_base___a __lastcall_version__",
  );
  return folder;
}

describe("versions", () => {
  it("versions live beside each other, and the root is the newest released one", () => {
    const into = temporary();
    for (const it of ["0.9.0", "0.10.0", "0.9.1", "0.11.0-rc.1"]) {
      addVersion(smallBuild(), into, BASE, it);
    }
    assertEquals(JSON.parse(readFileSync(join(into, "versions.json"), "utf8")), {
      latest: "0.10",
      versions: [
        { name: "0.11", version: "0.11.0-rc.1" },
        { name: "0.10", version: "0.10.0" },
        { name: "0.9", version: "0.9.1" },
      ],
    });
    const home = (folder: string) => readFileSync(join(into, folder, "index.html"), "utf8");
    assertEquals(home(""), "/lastcall/a _lastcall_a 0.10.0");
    assertEquals(home("0.9"), "/lastcall/0.9/a _lastcall_0_9_a 0.9.1");
    assertEquals(home("0.10"), "/lastcall/0.10/a _lastcall_0_10_a 0.10.0");
    assertEquals(home("0.11"), "/lastcall/0.11/a _lastcall_0_11_a 0.11.0-rc.1");
  });

  it("a new version replaces all files of the root but not those of the host", () => {
    const built = smallBuild();
    const into = temporary();
    addVersion(built, into, BASE, "1.0.0");
    for (const name of ["CNAME", "old.html"]) writeFileSync(join(into, name), "text");
    addVersion(built, into, BASE, "1.1.0");
    assertEquals(
      ["CNAME", "old.html", "1.0", "1.1", ".nojekyll"].filter((it) => existsSync(join(into, it))),
      ["CNAME", "1.0", "1.1", ".nojekyll"],
    );
  });

  it("an invalid base or version is refused before anything is written", () => {
    const into = temporary();
    const built = smallBuild();
    assertThrows(() => addVersion(built, into, "lastcall", "1.0.0"), RangeError, '"lastcall"');
    assertThrows(() => addVersion(built, into, "/", "latest"), RangeError, '"latest"');
    assertEquals(globSync("*", { cwd: into }), []);
  });

  it("the workflow adds each tag to the branch, and keeps the older versions", async () => {
    interface Step {
      readonly name?: string;
      readonly run: string;
      readonly "working-directory"?: string;
    }
    const steps: readonly Step[] = parseYaml(read(".github/workflows/docs.yml")).jobs.docs.steps;
    const scripts = steps.filter(({ name = "" }) => /^(?:Get|Build|Push)/.test(name));
    assertEquals(scripts.length, 3);
    const folder = temporary();
    const git = async (...args: readonly string[]) => {
      const { code, output } = await run("git", args, { cwd: folder });
      assertEquals(code, 0, output);
      return output;
    };
    await git("init", "--quiet", "--bare", "origin.git");
    await git("clone", "--quiet", "origin.git", "sources");
    writeFileSync(join(folder, "sources", "mod.ts"), "");
    const inSources = ["-C", "sources", "-c", "user.name=a", "-c", "user.email=a@example.org"];
    await git("-C", "sources", "add", "mod.ts");
    await git(...inSources, "commit", "--quiet", "--message", "Sources");
    await git("-C", "sources", "push", "--quiet", "origin", "HEAD");
    // Stands for `npm run docs -- --base … --into …` with a small build.
    writeFileSync(
      join(folder, "npm"),
      `#!${runtimeBinary("node")}
import(${JSON.stringify(join(root, "tools/docs.ts"))}).then(({ addVersion }) => {
  const [base, into] = ["--base", "--into"].map((it) => process.argv[process.argv.indexOf(it) + 1]);
  addVersion(${JSON.stringify(smallBuild())}, into, base, process.env.VERSION);
});
`,
      { mode: 0o755 },
    );
    for (const tag of ["0.1.0", "0.2.0", "0.2.0"]) {
      const clone = mkdtempSync(join(folder, "clone-"));
      await git("clone", "--quiet", join(folder, "origin.git"), clone);
      for (const { run: script, "working-directory": place = "." } of scripts) {
        const { code, output } = await run("bash", ["-e", "-o", "pipefail", "-c", script], {
          cwd: join(clone, place),
          env: {
            PATH: [folder, process.env["PATH"]].join(delimiter),
            GITHUB_REPOSITORY: "lastcall/lastcall",
            GITHUB_REF_NAME: `v${tag}`,
            VERSION: tag,
          },
        });
        assertEquals(code, 0, output);
      }
    }
    const log = await git("--git-dir=origin.git", "log", "--format=%s", "gh-pages");
    assertEquals(log, "Documentation of v0.2.0\nDocumentation of v0.1.0\n");
    const pages = ["versions.json", "0.1/index.html", "0.2/index.html", "index.html"];
    const files = await git("--git-dir=origin.git", "ls-tree", "-r", "--name-only", "gh-pages");
    assertEquals(pages.filter((page) => !files.split("\n").includes(page)), []);
    assert(!files.includes("mod.ts\n"), "the branch has no sources");
    const home = await git("--git-dir=origin.git", "show", "gh-pages:index.html");
    assertEquals(home, "/lastcall/a _lastcall_a 0.2.0");
  });

  it(
    "the menu of an old version lists newer ones, and a note says which is the latest",
    { skip },
    async () => {
      const built = await siteBuild();
      const into = temporary();
      for (const it of ["0.1.0", "0.2.0"]) addVersion(built, into, BASE, it);
      const url = await serveFolder(into);
      await using view = await SiteView.at(browser, `${url}0.1/stopping`);
      const { page } = view;
      for (const place of ["", "0.1/", "0.2/", "0.2/stopping"]) {
        assertEquals((await fetch(url + place)).status, 200, place);
      }
      const note = page.getByText(
        "This page describes version 0.1.0. The latest version is 0.2.0.",
      );
      await note.waitFor();
      const menu = page.locator(".VPNavBar .versions");
      await menu.locator("summary").press("Enter");
      assertEquals(await menu.getByRole("link").allTextContents(), ["0.2.0 (latest)", "0.1.0"]);
      assertEquals(await flaws(page), []);
      await page.keyboard.press("Escape");
      await menu.getByRole("link").first().waitFor({ state: "hidden" });
      await menu.locator("summary").press("Enter");
      await menu.getByRole("link", { name: "0.2.0" }).click();
      await page.waitForURL(url);
      await page.getByText("One deadline for the whole process").waitFor();
      assertEquals(await page.getByText("This page describes").count(), 0);
    },
  );
});

describe("in the browser", { skip }, () => {
  it("search finds a word of a page and opens the place", async () => {
    await using view = await SiteView.at(browser, await siteUrl());
    const { page } = view;
    await page.getByRole("button", { name: "Search" }).click();
    await page.getByRole("searchbox").fill("unreadyDelayMs");
    const hit = page.getByRole("option").filter({ hasText: "Set the shutdown timeout" });
    await hit.click();
    await page.waitForURL(/\/stopping#set-the-shutdown-timeout$/);
    await page.getByRole("heading", { level: 1, name: "Graceful shutdown" }).waitFor();
  });

  it("search works with the keyboard only, and says when nothing is found", async () => {
    await using view = await SiteView.at(browser, await siteUrl());
    const { page } = view;
    await page.keyboard.press("Control+k");
    await page.getByRole("searchbox").fill("zzzzqqq");
    await page.getByText("No results for").waitFor();
    await page.getByRole("searchbox").fill("graceful shutdown");
    await page.getByRole("option").first().waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Graceful shutdown" }).waitFor();
  });

  it("the install commands are tabs, and the button copies the command without its prompt", async () => {
    const permissions = ["clipboard-read", "clipboard-write"];
    await using view = await SiteView.at(browser, await siteUrl(), { permissions });
    const { page } = view;
    await page.getByText("Deno", { exact: true }).click();
    const block = page.locator(".vp-code-group .language-console.active");
    assertEquals(
      await block.locator("code").textContent(),
      "$ deno add lastcall@jsr:@lastcall/lastcall",
    );
    await block.hover();
    await block.getByRole("button").click();
    await page.locator(".vp-code-group button.copied").waitFor();
    assertEquals(
      await page.evaluate(() => navigator.clipboard.readText()),
      "deno add lastcall@jsr:@lastcall/lastcall",
    );
  });

  it("a link from the overview opens the reference, and the reference links back", async () => {
    await using view = await SiteView.at(browser, `${await siteUrl()}api`);
    const { page } = view;
    await page.getByRole("link", { name: "cron", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "lastcall/cron" }).waitFor();
    await page.getByRole("link", { name: "names by runtime" }).click();
    await page.getByRole("heading", { level: 1, name: "API" }).waitFor();
  });

  it("images are shown", async () => {
    await using view = await SiteView.at(browser, `${await siteUrl()}stopping`);
    const image = view.page.getByRole("img", { name: /States of a group/ });
    await image.scrollIntoViewIfNeeded();
    assertGreater(await image.evaluate((it: HTMLImageElement) => it.naturalWidth), 100);
  });

  it("the items of the production checklist can be ticked", async () => {
    await using view = await SiteView.at(browser, `${await siteUrl()}production`);
    const boxes = view.page.getByRole("listitem").getByRole("checkbox", { name: "Done" });
    assertGreater(await boxes.count(), 20);
    await boxes.first().check();
    assert(!(await view.page.getByRole("main").innerText()).includes("[ ]"));
  });

  const places = [
    "",
    "stopping",
    "production",
    "api",
    "reference/",
    "reference/lastcall/~/LoopGroup.html",
  ];
  for (const colorScheme of ["light", "dark"] as const) {
    it(`pages and search are accessible from 320 px to wide, in ${colorScheme} colours`, async () => {
      for (const place of places) {
        await using view = await SiteView.at(browser, await siteUrl() + place, { colorScheme });
        for (const width of [320, 768, 1920]) {
          await view.page.setViewportSize({ width, height: 900 });
          const wide = await view.page.evaluate(() => document.documentElement.scrollWidth);
          assert(wide <= width, `${place} is ${wide} px wide at ${width} px`);
          if (width !== 768) {
            assertEquals(await flaws(view.page), [], `${place} at ${width} px`);
          }
        }
      }
      await using view = await SiteView.at(browser, await siteUrl(), { colorScheme });
      await view.page.keyboard.press("Control+k");
      await view.page.getByRole("searchbox").fill("deadline");
      await view.page.getByRole("option").first().waitFor();
      assertEquals(await flaws(view.page), []);
    });
  }
});
