import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { PAGE } from "../../src/health/_page.ts";
import { buildPage, PAGE_MODULE } from "../../tools/page.ts";
import { root } from "../../tools/runtimes.ts";

test("the page is the build of its sources: npm run page makes it", async () => {
  const written = await readFile(join(root, PAGE_MODULE), "utf8");
  assert(written === await buildPage(), "page/ was changed after the page was made from it");
});

test("the page is one small document that names no other host", () => {
  const size = new TextEncoder().encode(PAGE).length;
  assert(size < 60_000, `it has ${size} bytes`);
  const hosts = [...PAGE.matchAll(/https?:\/\/([\w.-]+)/g)].map(([, host]) => host);
  assertEquals([...new Set(hosts)], ["www.w3.org"], "the name of a vocabulary, never asked for");
  assertEquals(PAGE.match(/<(img|iframe|object|embed)\b|\bsrc=|@import|url\(/g), null);
});

test("the page carries the license of what is in it", () => {
  assertStringIncludes(PAGE, "The MIT License (MIT)");
  assertStringIncludes(PAGE, "Jason Miller");
});
