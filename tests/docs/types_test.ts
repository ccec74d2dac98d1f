import { rmSync } from "node:fs";
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { assertEquals, assertGreater, assertStringIncludes } from "@std/assert";
import { run } from "../../tools/process.ts";
import { root, runtimeBinary } from "../../tools/runtimes.ts";
import { comments, type Document, documents } from "./_documents.ts";

// Inside the repository, so that the clients of engines are found as everywhere.
const folder = await mkdtemp(join(root, "tests", "docs", "unchecked_"));
after(() => rmSync(folder, { recursive: true, force: true }));

/** Not installed here, but another one is that has the same shape. */
const STAND_IN = [
  'import Database from "better-sqlite3"',
  'import { DatabaseSync as Database } from "node:sqlite"',
] as const;

/**
 * The text without exports but those with a type: other files of a document import these, and the types of
 * the others need not be written down.
 */
function checkable(text: string): string {
  return text.replace(...STAND_IN)
    .replace(/^export default /gm, "void ")
    .replace(/^export (?!const \w+: )/gm, "");
}

/**
 * `deno test --doc` runs every snippet but those that it is told to ignore. What such a snippet takes for
 * granted stands in comments before it, one line each: `<!-- given: declare const orders: Runnable; -->`.
 */
async function check(all: readonly Document[]): Promise<string> {
  const files: string[] = [];
  for (const { path, blocks } of all) {
    for (const { language, attributes, line, text, markers } of blocks) {
      if (language !== "ts" || !attributes.includes("ignore")) continue;
      const place = join(folder, path.replaceAll("/", "_"));
      const named = join(place, markers.get("file") ?? `${line}.ts`);
      const file = files.includes(named) ? join(place, `${line}.ts`) : named; // a file may be written twice
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, `${checkable(`${markers.get("given") ?? ""}\n${text}`)}\nexport {};\n`);
      files.push(file);
    }
  }
  if (files.length === 0) return "";
  const { code, output } = await run(runtimeBinary("deno"), ["check", ...files]);
  return code === 0 ? "" : output;
}

test("snippets that are not run have the right types", async () => {
  assertEquals(await check(documents), "");
});

test("snippets in JSDoc that are not run have the right types", async () => {
  assertGreater(comments.flatMap(({ blocks }) => blocks).length, 50);
  assertEquals(await check(comments), "");
});

test("a snippet with a wrong type or a missing declaration is reported", async () => {
  const text = 'import { StepLoop } from "lastcall";\nnew StepLoop(42, () => {});\nsave(43);';
  const block = { line: 1, language: "ts", attributes: ["ignore"], text, markers: new Map() };
  const output = await check([{ path: "wrong.md", blocks: [block] }]);
  assertStringIncludes(output, "not assignable to parameter of type 'string'");
  assertStringIncludes(output, "Cannot find name 'save'");
});
