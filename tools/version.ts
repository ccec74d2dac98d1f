// The version of the package. deno.json has it; the other files are set and checked from there.
// `npm version` covers neither deno.json nor the changelog.
//
//   npm run set-version -- 0.2.0                     sets it in all files, with today's date
//   npm run set-version -- 0.2.0 --date 2030-01-31
//   node tools/version.ts --check                    checks that all files have the same version
//   node tools/version.ts --check --tag v0.2.0       and that it is dated and matches the tag
//   node tools/version.ts --notes                    prints its section of the changelog

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

const SOURCE = "deno.json";
const CHANGELOG = "CHANGELOG.md";
const HEADING = /^## (\S+) \((unreleased|\d{4}-\d{2}-\d{2})\)$/;
const VERSION = /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z]+(\.[0-9A-Za-z]+)*)?$/;

/** How often each manifest contains the version, always before other versions in it. */
const OCCURRENCES: Readonly<Record<string, number>> = {
  [SOURCE]: 1,
  "package.json": 1,
  "package-lock.json": 2,
};

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
 * Returns the places whose version differs from that of deno.json. With a tag the version must also be
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
      : [`${CHANGELOG} has no date for ${version}: run npm run set-version before the tag`]),
  ];
}

/**
 * Writes a version and its release date to all files.
 *
 * @throws {Error} before it writes anything, when the version or the changelog is not ready.
 */
export function setVersion(folder: string, version: string, date: string): void {
  if (!VERSION.test(version)) {
    throw new Error(`Invalid version "${version}": expected a version as 1.2.3 or 1.2.3-rc.1`);
  }
  if (!/^\d{4}-\d{2}-\d{2}$/.test(date) || Number.isNaN(Date.parse(date))) {
    throw new Error(`Invalid date "${date}": expected a date as 2030-01-31`);
  }
  const [first, ...older] = readChangelog(folder);
  if (older.some((section) => section.version === version)) {
    throw new Error(`${CHANGELOG} already has a section for ${version}: choose a higher version`);
  }
  if (first === undefined || first.date !== undefined) {
    throw new Error(
      `${CHANGELOG} has no unreleased section: add "## ${version} (unreleased)" first`,
    );
  }
  const old = readVersion(folder);
  const written = Object.entries(OCCURRENCES).map(([file, times]) => {
    return [file, replaced(read(folder, file), old, version, times)] as const;
  });
  const heading = `## ${first.version} (unreleased)\n`;
  const changelog = read(folder, CHANGELOG).replace(heading, `## ${version} (${date})\n`);
  for (const [file, text] of [...written, [CHANGELOG, changelog] as const]) {
    writeFileSync(join(folder, file), text);
  }
}

/** Replaces text instead of parsed JSON, so that the formatting of the file stays. */
function replaced(text: string, old: string, version: string, times: number): string {
  let out = text;
  let from = 0;
  for (let i = 0; i < times; i++) {
    const at = out.indexOf(`"version": "${old}"`, from);
    if (at < 0) throw new Error(`A manifest does not have the version ${old}: correct it first`);
    const now = `"version": "${version}"`;
    out = out.slice(0, at) + now + out.slice(at + now.length - version.length + old.length);
    from = at + now.length;
  }
  return out;
}

function manifestVersions(
  folder: string,
): readonly { readonly where: string; readonly version: unknown }[] {
  const lock = parse(folder, "package-lock.json");
  return [
    { where: "package.json", version: parse(folder, "package.json").version },
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

const USAGE = "Give a version, as 1.2.3, or --check, or --notes";

function runCommand(): void {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      check: { type: "boolean", default: false },
      notes: { type: "boolean", default: false },
      tag: { type: "string" },
      date: { type: "string", default: new Date().toISOString().slice(0, 10) },
    },
  });
  const [version, ...rest] = positionals;
  const asked = [version !== undefined, values.check, values.notes].filter(Boolean).length;
  try {
    if (asked !== 1 || rest.length > 0) throw new Error(USAGE);
    if (values.tag !== undefined && !values.check) throw new Error("--tag needs --check");
    if (values.check) check(values.tag);
    else if (values.notes) console.log(notes());
    else {
      setVersion(root, version!, values.date);
      console.log(`Set ${version} of ${values.date}. Commit it, then tag it v${version}.`);
    }
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
