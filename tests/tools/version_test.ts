import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { run } from "../../tools/process.ts";
import { root } from "../../tools/runtimes.ts";
import { checkReady, readChangelog, readVersion, versionProblems } from "../../tools/version.ts";
import { TempFolder } from "../engines/sqlite/_folder.ts";

const FILES = ["deno.json", "package.json", "package-lock.json"];
const UNRELEASED = "# Changelog\n\n## 0.1.0 (unreleased)\n\n- All.\n";

/** Copies the manifests with the version 0.1.0, and writes a changelog. */
function project(folder: TempFolder, changelog = UNRELEASED): string {
  for (const name of FILES) cpSync(join(root, name), join(folder.path, name));
  edit(folder, "package.json", readVersion(root), "0.1.0");
  edit(folder, "deno.json", readVersion(root), "0.1.0");
  const lock = join(folder.path, "package-lock.json");
  const { packages, ...others } = JSON.parse(readFileSync(lock, "utf8"));
  packages[""].version = others.version = "0.1.0";
  writeFileSync(lock, `${JSON.stringify({ ...others, packages }, null, 2)}\n`);
  writeFileSync(join(folder.path, "CHANGELOG.md"), changelog);
  return folder.path;
}

function edit(folder: TempFolder, name: string, from: string, to: string): void {
  const path = join(folder.path, name);
  writeFileSync(path, readFileSync(path, "utf8").replace(from, to));
}

/** Makes the project a repository in which `npm version` can run. */
async function repository(folder: TempFolder, changelog?: string): Promise<string> {
  const path = project(folder, changelog);
  mkdirSync(join(path, "tools"));
  for (const name of ["version.ts", "runtimes.ts"]) {
    cpSync(join(root, "tools", name), join(path, "tools", name));
  }
  symlinkSync(join(root, "node_modules"), join(path, "node_modules"));
  const user = ["-c", "user.name=Anna", "-c", "user.email=anna@example.org"];
  const files = ["tools", "CHANGELOG.md", ...FILES];
  for (const args of [["init"], ["add", ...files], [...user, "commit", "-m", "start"]]) {
    const { code, output } = await run("git", args, { cwd: path });
    assertEquals(code, 0, output);
  }
  return path;
}

async function npmVersion(cwd: string, version: string) {
  const env = {
    ...{ GIT_AUTHOR_NAME: "Anna", GIT_AUTHOR_EMAIL: "anna@example.org" },
    ...{ GIT_COMMITTER_NAME: "Anna", GIT_COMMITTER_EMAIL: "anna@example.org" },
  };
  return await run("npm", ["version", version], { cwd, env });
}

async function git(cwd: string, ...args: readonly string[]): Promise<string> {
  return (await run("git", args, { cwd })).output.trim();
}

describe("the version of the package", () => {
  it("the version of the package is the same in all files of this repository", () => {
    assertEquals(versionProblems(root), []);
  });

  it("the version of the package is set by npm version in all files, committed and tagged, and nothing else changes", async () => {
    using folder = new TempFolder();
    const path = await repository(folder);
    const { code, output } = await npmVersion(path, "0.20.0-rc.1");
    assertEquals(code, 0, output);
    assertEquals(versionProblems(path, "v0.20.0-rc.1"), []);
    const today = new Date().toISOString().slice(0, 10);
    assertEquals(readChangelog(path), [{ version: "0.20.0-rc.1", date: today, text: "- All." }]);
    assertEquals(await git(path, "tag"), "v0.20.0-rc.1");
    assertEquals(
      await git(path, "diff", "--numstat", "HEAD~1"),
      [
        ...["1\t1\tCHANGELOG.md", "1\t1\tdeno.json", "2\t2\tpackage-lock.json"],
        "1\t1\tpackage.json",
      ].join("\n"),
    );
    assertEquals(await git(path, "status", "--porcelain", "-uno"), "");
  });

  it("the version of the package stays unchanged when the changelog has no unreleased section", async () => {
    using folder = new TempFolder();
    const path = await repository(folder, "# Changelog\n\n## 0.1.0 (2029-01-01)\n\n- All.\n");
    const { code, output } = await npmVersion(path, "0.2.0");
    assertEquals(code !== 0, true);
    assertStringIncludes(output, 'add "## 0.2.0 (unreleased)" first');
    assertEquals(await git(path, "status", "--porcelain", "-uno"), "");
  });

  it("the version of the package is reported for each place that has another one", () => {
    for (const name of ["deno.json", "package-lock.json"]) {
      using folder = new TempFolder();
      const path = project(folder);
      edit(folder, name, '"version": "0.1.0"', '"version": "0.1.1"');
      assertEquals(versionProblems(path), [`${name} has 0.1.1, package.json has 0.1.0`]);
    }
    using folder = new TempFolder();
    const path = project(folder, "# Changelog\n\n## 0.0.9 (2029-01-01)\n\n- Less.\n");
    assertStringIncludes(versionProblems(path).join(), "CHANGELOG.md has 0.1.0 neither");
  });

  it("the version of the package may be the last release while the changelog has an unreleased section", () => {
    using folder = new TempFolder();
    const text =
      "# Changelog\n\n## 0.2.0 (unreleased)\n\n- New.\n\n## 0.1.0 (2029-01-01)\n\n- All.\n";
    assertEquals(versionProblems(project(folder, text)), []);
  });

  it("the version of the package must match the tag and have a date", () => {
    using folder = new TempFolder();
    const path = project(folder);
    assertEquals(versionProblems(path, "v0.2.0").length, 2);
    assertStringIncludes(versionProblems(path, "v0.1.0").join(), "no date for 0.1.0");
    edit(folder, "CHANGELOG.md", "(unreleased)", "(2030-01-31)");
    assertEquals(versionProblems(path, "v0.1.0"), []);
  });

  it("the version of the package is refused when the changelog has released it", () => {
    using folder = new TempFolder();
    const path = project(
      folder,
      "# Changelog\n\n## 0.2.0 (unreleased)\n\n- New.\n\n## 0.1.0 (2029-01-01)\n\n- All.\n",
    );
    assertThrows(() => checkReady(path, "0.1.0"), Error, "choose a higher version");
    checkReady(path, "0.2.0");
  });

  it("the version of the package is refused when a heading of the changelog is invalid", () => {
    using folder = new TempFolder();
    const path = project(folder, "# Changelog\n\n## Version 0.1.0\n\n- All.\n");
    assertThrows(() => readChangelog(path), Error, '"## Version 0.1.0"');
  });
});
