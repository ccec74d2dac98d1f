import { existsSync, globSync, readdirSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { root } from "../../tools/runtimes.ts";

const folder = `${root}/examples`;
const table = readFileSync(`${folder}/README.md`, "utf8");
/** `npm start` has a file of its own. */
const entries = readdirSync(folder).filter((it) => it !== "README.md" && it !== "start.ts").sort();
const numbered = entries.filter((it) => /^\d\d_[a-z_]+(\.ts)?$/.test(it));
const shared = entries.filter((it) => /^_[a-z_]+\.ts$/.test(it));
const read = (pattern: string) =>
  globSync(pattern, { cwd: root }).map((path) => readFileSync(`${root}/${path}`, "utf8")).join();

describe("the table of examples", () => {
  it("the table has every example, numbered without a gap", () => {
    assertEquals([...shared, ...numbered].sort(), entries, "a name is numbered, or private");
    assertEquals(numbered.map((it) => Number(it.slice(0, 2))), numbered.map((_, i) => i + 1));
    const rows = table.split("\n").filter((line) => /^\| \[\d\d /.test(line));
    assertEquals(rows.length, numbered.length);
    for (const [i, entry] of numbered.entries()) {
      const row = rows[i] ?? "";
      assert(
        row.includes(`](${entry})`) || row.includes(`](${entry}/README.md)`),
        `${entry}: ${row}`,
      );
      assert(row.includes(`examples/${entry}`), `${entry} has no line that starts it`);
    }
  });

  it("the links of the table exist", () => {
    for (const [, target = ""] of table.matchAll(/\]\(([^)]+)\)/g)) {
      assert(existsSync(`${folder}/${target}`), target);
    }
    for (const name of shared) assert(table.includes(`](${name})`), name);
  });

  it("every example is run by a test", () => {
    const tests = read("tests/{examples,service}/*.ts");
    for (const entry of numbered) {
      const name = entry.replace(/\.ts$/, "");
      assert(
        tests.includes(`"${name}"`) || tests.includes(`examples/${name}/`),
        `${name} is not run`,
      );
    }
  });

  it("every file of the examples has fewer than 60 lines", () => {
    const long = globSync("examples/**/*.{ts,yaml}", { cwd: root })
      .map((path) => [path, readFileSync(`${root}/${path}`, "utf8").trimEnd().split("\n").length])
      .filter(([, lines]) => Number(lines) >= 60);
    assertEquals(long, []);
  });

  it("every example says how to start it", () => {
    for (const entry of numbered.filter((it) => it.endsWith(".ts"))) {
      const [head = ""] = readFileSync(`${folder}/${entry}`, "utf8").split("*/");
      assert(head.includes(`* ${Number(entry.slice(0, 2))}. `), `${entry} begins with its number`);
      assert(head.includes(`examples/${entry}`), `${entry} says how to start it`);
    }
  });
});
