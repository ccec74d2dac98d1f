// One version: deno.json has it, and whatever else tells it is set and checked from here.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Where the version stands in a manifest. */
export interface VersionPlace {
  readonly where: string;
  readonly version: unknown;
}

/** A section of the changelog; without a date it is still being written. */
export interface Section {
  readonly version: string;
  readonly date: string | undefined;
  readonly text: string;
}

const SOURCE = "deno.json";
const CHANGELOG = "CHANGELOG.md";
const HEADING = /^## (\S+) \((unreleased|\d{4}-\d{2}-\d{2})\)$/;
const VERSION = /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z]+(\.[0-9A-Za-z]+)*)?$/;

/** How many times each manifest tells the version, always before any other version in it. */
const TIMES: Readonly<Record<string, number>> = {
  [SOURCE]: 1,
  "package.json": 1,
  "package-lock.json": 2,
};

/** The version of the package in a folder. */
export function readVersion(folder: string): string {
  return parse(folder, SOURCE).version;
}

/** The sections of a changelog, newest first. Refuses a heading that is not understood. */
export function readChangelog(folder: string): readonly Section[] {
  const [, ...parts] = read(folder, CHANGELOG).split(/^(?=## )/m);
  return parts.map((part) => {
    const [heading = "", ...lines] = part.split("\n");
    const [, version, date] = HEADING.exec(heading) ?? [];
    if (version === undefined) {
      throw new Error(
        `"${heading}" of ${CHANGELOG} is no heading of a version: write "## 1.2.3 (unreleased)", ` +
          'or a date as in "(2030-01-31)"',
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
 * What is wrong with the version of a folder: manifests or a changelog that tell another one. With a tag
 * it must also be the tag's, and have its date.
 */
export function versionProblems(folder: string, tag?: string): readonly string[] {
  const version = readVersion(folder);
  const others = manifestVersions(folder).filter((place) => place.version !== version);
  const sections = readChangelog(folder);
  const released = sections.find(({ date }) => date !== undefined);
  const told = [sections[0], released].some((section) => section?.version === version);
  return [
    ...others.map((place) => `${place.where} says ${place.version}, ${SOURCE} says ${version}`),
    ...(told
      ? []
      : [`${CHANGELOG} tells neither at its top nor as its last release of ${version}`]),
    ...(tag === undefined || tag === `v${version}` ? [] : [`the tag is ${tag}, not v${version}`]),
    ...(tag === undefined || released?.version === version
      ? []
      : [`${CHANGELOG} has no date for ${version}: set the version before the tag`]),
  ];
}

/** Writes a version, and the date of its release, to all places at once. Refuses before it writes. */
export function setVersion(folder: string, version: string, date: string): void {
  if (!VERSION.test(version)) {
    throw new Error(`"${version}" is no version: expected one as 1.2.3 or 1.2.3-rc.1`);
  }
  if (!/^\d{4}-\d{2}-\d{2}$/.test(date) || Number.isNaN(Date.parse(date))) {
    throw new Error(`"${date}" is no date: expected one as 2030-01-31`);
  }
  const [first, ...older] = readChangelog(folder);
  if (older.some((section) => section.version === version)) {
    throw new Error(`${CHANGELOG} has a section for ${version} already: choose a higher version`);
  }
  if (first === undefined || first.date !== undefined) {
    throw new Error(
      `${CHANGELOG} does not begin with what is new: tell it under "## ${version} (unreleased)" first`,
    );
  }
  const old = readVersion(folder);
  const written = Object.entries(TIMES).map(([file, times]) => {
    return [file, replaced(read(folder, file), old, version, times)] as const;
  });
  const heading = `## ${first.version} (unreleased)\n`;
  const changelog = read(folder, CHANGELOG).replace(heading, `## ${version} (${date})\n`);
  for (const [file, text] of [...written, [CHANGELOG, changelog] as const]) {
    writeFileSync(join(folder, file), text);
  }
}

/** As text, so that the rest of a file stays as people or tools have formatted it. */
function replaced(text: string, old: string, version: string, times: number): string {
  let out = text;
  let from = 0;
  for (let i = 0; i < times; i++) {
    const at = out.indexOf(`"version": "${old}"`, from);
    if (at < 0) throw new Error(`A manifest does not tell the version ${old}: mend it first`);
    const now = `"version": "${version}"`;
    out = out.slice(0, at) + now + out.slice(at + now.length - version.length + old.length);
    from = at + now.length;
  }
  return out;
}

function manifestVersions(folder: string): readonly VersionPlace[] {
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
