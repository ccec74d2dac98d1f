import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { root } from "../../tools/runtimes.ts";
import { readChangelog, readVersion, setVersion, versionProblems } from "../../tools/version.ts";
import { TempFolder } from "../engines/sqlite/_folder.ts";

const FILES = ["deno.json", "package.json", "package-lock.json"];

/** Copies the manifests with the version 0.1.0, and writes a changelog. */
function project(
  folder: TempFolder,
  changelog = "# Changelog\n\n## 0.1.0 (unreleased)\n\n- All.\n",
) {
  for (const name of FILES) cpSync(join(root, name), join(folder.path, name));
  edit(folder, "package.json", readVersion(root), "0.1.0");
  edit(folder, "deno.json", readVersion(root), "0.1.0");
  const lock = join(folder.path, "package-lock.json");
  const { packages, ...others } = JSON.parse(readFileSync(lock, "utf8"));
  packages[""].version = others.version = "0.1.0";
  writeFileSync(lock, JSON.stringify({ ...others, packages }, null, 2));
  writeFileSync(join(folder.path, "CHANGELOG.md"), changelog);
  return folder.path;
}

function edit(folder: TempFolder, name: string, from: string, to: string): void {
  const path = join(folder.path, name);
  writeFileSync(path, readFileSync(path, "utf8").replace(from, to));
}

describe("the version of the package", () => {
  it("is the same in all files of this repository", () => {
    assertEquals(versionProblems(root), []);
  });

  it("is set in all manifests and in the changelog, and nothing else changes", () => {
    using folder = new TempFolder();
    const path = project(folder);
    const before = FILES.map((name) => readFileSync(join(path, name), "utf8"));
    setVersion(path, "0.20.0-rc.1", "2030-01-31");
    assertEquals(versionProblems(path, "v0.20.0-rc.1"), []);
    assertEquals(readChangelog(path), [
      { version: "0.20.0-rc.1", date: "2030-01-31", text: "- All." },
    ]);
    for (const [i, name] of FILES.entries()) {
      const lines = readFileSync(join(path, name), "utf8").split("\n");
      const changed = before[i]!.split("\n").filter((line, n) => line !== lines[n]);
      assertEquals(changed.length, name === "package-lock.json" ? 2 : 1, name);
      assertEquals(changed.every((line) => line.includes('"version": "0.1.0"')), true, name);
    }
  });

  it("is reported for each place that has another one", () => {
    for (const name of ["package.json", "package-lock.json"]) {
      using folder = new TempFolder();
      const path = project(folder);
      edit(folder, name, '"version": "0.1.0"', '"version": "0.1.1"');
      assertEquals(versionProblems(path), [`${name} has 0.1.1, deno.json has 0.1.0`]);
    }
    using folder = new TempFolder();
    const path = project(folder, "# Changelog\n\n## 0.0.9 (2029-01-01)\n\n- Less.\n");
    assertStringIncludes(versionProblems(path).join(), "CHANGELOG.md has 0.1.0 neither");
  });

  it("may be the last release while the changelog has an unreleased section", () => {
    using folder = new TempFolder();
    const text =
      "# Changelog\n\n## 0.2.0 (unreleased)\n\n- New.\n\n## 0.1.0 (2029-01-01)\n\n- All.\n";
    assertEquals(versionProblems(project(folder, text)), []);
  });

  it("must match the tag and have a date", () => {
    using folder = new TempFolder();
    const path = project(folder);
    assertEquals(versionProblems(path, "v0.2.0").length, 2);
    assertStringIncludes(versionProblems(path, "v0.1.0").join(), "no date for 0.1.0");
    setVersion(path, "0.1.0", "2030-01-31");
    assertEquals(versionProblems(path, "v0.1.0"), []);
  });

  it("is refused when it is invalid, released, or without a changelog section, and nothing is written", () => {
    using folder = new TempFolder();
    const text =
      "# Changelog\n\n## 0.2.0 (unreleased)\n\n- New.\n\n## 0.1.0 (2029-01-01)\n\n- All.\n";
    const path = project(folder, text);
    assertThrows(() => setVersion(path, "v0.2.0", "2030-01-31"), Error, 'Invalid version "v0.2.0"');
    assertThrows(() => setVersion(path, "0.2.0", "31.1.2030"), Error, 'Invalid date "31.1.2030"');
    assertThrows(() => setVersion(path, "0.2.0", "2030-13-01"), Error, "Invalid date");
    assertThrows(() => setVersion(path, "0.1.0", "2030-01-31"), Error, "choose a higher version");
    assertEquals(readVersion(path), "0.1.0");
    setVersion(path, "0.2.0", "2030-01-31");
    assertThrows(() => setVersion(path, "0.3.0", "2030-02-01"), Error, "has no unreleased section");
    assertEquals(readVersion(path), "0.2.0");
  });

  it("is refused when a heading of the changelog is invalid", () => {
    using folder = new TempFolder();
    const path = project(folder, "# Changelog\n\n## Version 0.1.0\n\n- All.\n");
    assertThrows(() => readChangelog(path), Error, '"## Version 0.1.0"');
  });
});
