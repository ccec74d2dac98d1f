// The version of the package. `npm version 0.2.0` sets it in package.json and package-lock.json, commits
// and tags. It runs this tool to check the changelog first, and to copy the version to deno.json and the
// changelog, which npm does not know.
//
//   node tools/version.ts --check                checks that all files have the same version
//   node tools/version.ts --check --tag v0.2.0   and that it is dated and matches the tag
//   node tools/version.ts --notes                prints its section of the changelog
//   node tools/version.ts --ready                run by npm: checks that the changelog awaits a version
//   node tools/version.ts --copy                 run by npm: copies the version, with today's date

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { root } from "./runtimes.ts";

/** A section of the changelog. Without a date the version is unreleased. */
export interface Section {
  readonly version: string;
  readonly date: string | undefined;
  readonly text: string;
}

const SOURCE = "package.json";
const JSR_MANIFEST = "deno.json";
const CHANGELOG = "CHANGELOG.md";
const HEADING = /^## (\S+) \((unreleased|\d{4}-\d{2}-\d{2})\)$/;

/** Returns the version of the package in a folder. */
export function readVersion(folder: string): string {
  return parse(folder, SOURCE).version;
}

/**
 * Returns the sections of the changelog, newest first.
 *
 * @throws {Error} for a heading in another format.
 */
export function readChangelog(folder: string): readonly Section[] {
  const [, ...parts] = read(folder, CHANGELOG).split(/^(?=## )/m);
  return parts.map((part) => {
    const [heading = "", ...lines] = part.split("\n");
    const [, version, date] = HEADING.exec(heading) ?? [];
    if (version === undefined) {
      throw new Error(
        `Invalid heading "${heading}" in ${CHANGELOG}: write "## 1.2.3 (unreleased)" or ` +
          '"## 1.2.3 (2030-01-31)"',
      );
    }
    return {
      version,
      date: date === "unreleased" ? undefined : date,
      text: lines.join("\n").trim(),
    };
  });
}

/**
 * Returns the places whose version differs from that of package.json. With a tag the version must also be
 * that of the tag and have a date in the changelog.
 */
export function versionProblems(folder: string, tag?: string): readonly string[] {
  const version = readVersion(folder);
  const others = manifestVersions(folder).filter((place) => place.version !== version);
  const sections = readChangelog(folder);
  const released = sections.find(({ date }) => date !== undefined);
  const inChangelog = [sections[0], released].some((section) => section?.version === version);
  return [
    ...others.map((place) => `${place.where} has ${place.version}, ${SOURCE} has ${version}`),
    ...(inChangelog
      ? []
      : [`${CHANGELOG} has ${version} neither as its first section nor as its last release`]),
    ...(tag === undefined || tag === `v${version}` ? [] : [`the tag is ${tag}, not v${version}`]),
    ...(tag === undefined || released?.version === version
      ? []
      : [`${CHANGELOG} has no date for ${version}: set the version with npm version`]),
  ];
}

/**
 * Checks that a version can be released.
 *
 * @throws {Error} when the changelog has no unreleased section, or has released the version already.
 */
export function checkReady(folder: string, version: string): void {
  const [first, ...older] = readChangelog(folder);
  if (older.some((section) => section.version === version)) {
    throw new Error(`${CHANGELOG} already has a section for ${version}: choose a higher version`);
  }
  if (first === undefined || first.date !== undefined) {
    throw new Error(
      `${CHANGELOG} has no unreleased section: add "## ${version} (unreleased)" first`,
    );
  }
}

/** Copies the version of package.json to deno.json, and with its date to the changelog. */
export function copyVersion(folder: string, date: string): void {
  const version = readVersion(folder);
  checkReady(folder, version);
  // Replaces text and not parsed JSON, so that the formatting of the file stays.
  write(folder, JSR_MANIFEST, /"version": "[^"]*"/, `"version": "${version}"`);
  write(folder, CHANGELOG, /^## \S+ \(unreleased\)$/m, `## ${version} (${date})`);
}

function write(folder: string, name: string, pattern: RegExp, text: string): void {
  writeFileSync(join(folder, name), read(folder, name).replace(pattern, text));
}

function manifestVersions(
  folder: string,
): readonly { readonly where: string; readonly version: unknown }[] {
  const lock = parse(folder, "package-lock.json");
  return [
    { where: JSR_MANIFEST, version: parse(folder, JSR_MANIFEST).version },
    { where: "package-lock.json", version: lock.version },
    { where: 'package-lock.json, in packages[""],', version: lock.packages?.[""]?.version },
  ];
}

function parse(folder: string, name: string) {
  return JSON.parse(read(folder, name));
}

function read(folder: string, name: string): string {
  return readFileSync(join(folder, name), "utf8");
}

function runCommand(): void {
  const { values } = parseArgs({
    options: {
      check: { type: "boolean", default: false },
      notes: { type: "boolean", default: false },
      ready: { type: "boolean", default: false },
      copy: { type: "boolean", default: false },
      tag: { type: "string" },
    },
  });
  const { tag, ...actions } = values;
  try {
    if (Object.values(actions).filter(Boolean).length !== 1) {
      throw new Error("Give one of --check, --notes, --ready and --copy");
    }
    if (tag !== undefined && !actions.check) throw new Error("--tag needs --check");
    if (actions.check) check(tag);
    else if (actions.notes) console.log(notes());
    // npm sets this variable for the scripts of `npm version`.
    else if (actions.ready) checkReady(root, process.env["npm_new_version"] ?? "");
    else copyVersion(root, new Date().toISOString().slice(0, 10));
  } catch (error) {
    console.error((error as Error).message);
    process.exitCode = 2;
  }
}

function check(tag: string | undefined): void {
  const problems = versionProblems(root, tag);
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) process.exitCode = 1;
  else console.log(readVersion(root));
}

function notes(): string {
  const current = readVersion(root);
  const section = readChangelog(root).find((it) => it.version === current);
  if (section === undefined) throw new Error(`CHANGELOG.md has no section for ${current}`);
  return section.text;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) runCommand();
