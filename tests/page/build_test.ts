import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { PAGE } from "../../src/health/_page.ts";
import { buildPage, PAGE_MODULE } from "../../tools/page.ts";
import { root } from "../../tools/runtimes.ts";

test("the built page is up to date with page/", async () => {
  const written = await readFile(join(root, PAGE_MODULE), "utf8");
  assert(written === await buildPage(), "page/ was changed: run npm run page");
});

test("the page is one small document without other hosts", () => {
  const size = new TextEncoder().encode(PAGE).length;
  assert(size < 100_000, `the page has ${size} bytes`);
  const hosts = [...PAGE.matchAll(/https?:\/\/([\w.-]+)/g)].map(([, host]) => host);
  assertEquals([...new Set(hosts)], ["www.w3.org"], "an XML namespace, which is never requested");
  assertEquals(PAGE.match(/<(img|iframe|object|embed)\b|\bsrc=|@import|url\(/g), null);
});

test("the page includes the license of Preact", () => {
  assertStringIncludes(PAGE, "The MIT License (MIT)");
  assertStringIncludes(PAGE, "Jason Miller");
});
