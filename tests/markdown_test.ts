import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { test } from "node:test";
import { assert, assertEquals, assertGreater } from "@std/assert";
import { anchors, fencedBlocks, localLinks } from "../tools/markdown.ts";
import { root } from "../tools/runtimes.ts";

const read = (path: string) => readFileSync(join(root, path), "utf8");
const paths = globSync("{*.md,{docs,examples,chaos,bench}/**/*.md}", {
  cwd: root,
  exclude: (path) => path.includes("node_modules"),
}).map((path) => path.replaceAll("\\", "/")).sort();

/** What is wrong with a link of a file, if anything. */
function broken(path: string, target: string): string | undefined {
  const [place = "", anchor] = target.split("#");
  const file = place === "" ? path : normalize(join(dirname(path), decodeURIComponent(place)));
  if (!existsSync(join(root, file))) return `there is no ${file}`;
  if (anchor === undefined) return undefined;
  return anchors(read(file)).has(anchor) ? undefined : `${file} has no heading #${anchor}`;
}

test("every link in the documentation leads somewhere", () => {
  assertGreater(paths.length, 5);
  const found = paths.flatMap((path) =>
    localLinks(read(path)).flatMap(({ line, target }) => {
      const trouble = broken(path, target);
      return trouble === undefined ? [] : [`${path}:${line} ${target}: ${trouble}`];
    })
  );
  assertEquals(found, []);
});

test("a link to a file or a heading that does not exist is found", () => {
  assertEquals(broken("README.md", "docs/nowhere.md"), "there is no docs/nowhere.md");
  assertEquals(broken("README.md", "#no-such-part"), "README.md has no heading #no-such-part");
});

/** `ts` is run or type-checked, `console` is repeated, data is read; the last two are for people. */
const KINDS = ["ts", "console", "json", "yaml", "toml", "dockerfile", "ini", "text", "sql"];

test("every block of the README and of the guides is of a kind that is checked", () => {
  for (
    const path of paths.filter((it) => /^(README|docs\/.*|examples\/README)\.md$|^README/.test(it))
  ) {
    for (const { language, line, markers } of fencedBlocks(read(path))) {
      assert(
        KINDS.includes(language),
        `${path}:${line} is "${language}"; known: ${KINDS.join(", ")}`,
      );
      assert(markers.get("skip") !== "", `${path}:${line} is skipped and does not say why`);
    }
  }
});

test("every file that ARCHITECTURE names exists", () => {
  const named = [
    ...read("ARCHITECTURE.md").matchAll(/`((?:src|runtime_adapters|tools|cli|tests)\/[\w./]+)`/g),
  ]
    .map(([, path = ""]) => path);
  assertGreater(named.length, 20);
  const missing = named.filter((path) =>
    !["", ".ts", ".tsx"].some((end) => existsSync(join(root, path + end)))
  );
  assertEquals(missing, []);
});
