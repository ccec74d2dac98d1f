// Builds the documentation site, and keeps several versions of it beside each other as static files.
//
//   npm run docs                                        builds this version into site/
//   npm run docs -- --into pages --base /lastcall/      adds it to the versions in pages/
//   npm run docs -- --version 0.2.0                     under another version
//
// `/` is the newest released version, `/0.2/` each version, and `versions.json` lists them. Every page
// reads that file when it is shown, so that old pages know newer versions.

import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { build } from "vitepress";
import { BASE_VARIABLE, REFERENCE, VERSION } from "../docs/.vitepress/site.ts";
import { buildReference } from "./reference.ts";
import { root } from "./runtimes.ts";
import { readVersion } from "./version.ts";

/** The documentation of one minor version. */
export interface SiteVersion {
  /** The name of its folder: `0.2`. */
  readonly name: string;
  /** The version that was built last: `0.2.1`. */
  readonly version: string;
}

/** The contents of `versions.json`. */
export interface SiteVersions {
  /** The name of the version at the root. */
  readonly latest: string;
  /** All versions, newest first. */
  readonly versions: readonly SiteVersion[];
}

/** Stands for the base URL in a build, until the build is copied to its place. */
const BASE = "/__lastcall_base__/";

const INDEX = "versions.json";

/** The files of a build that name its base or its version. Others are copied as they are. */
const TEXT = /\.(?:html|js|css|json|md|txt|svg)$/;

/** Builds the site into an empty folder, with placeholders for the base and the version. */
export async function buildSite(folder: string): Promise<void> {
  process.env[BASE_VARIABLE] = BASE;
  await build(join(root, "docs"), { outDir: folder });
  await buildReference(join(folder, REFERENCE));
}

/**
 * Copies a build into its version's folder of `into`, and to the root if no released version is newer.
 *
 * @throws {RangeError} for a base without slashes at both ends, or an invalid version.
 */
export function addVersion(built: string, into: string, base: string, version: string): void {
  if (!/^\/(?:.+\/)?$/.test(base)) {
    throw new RangeError(`Invalid base "${base}": start and end it with a slash, as in /lastcall/`);
  }
  const name = /^(\d+\.\d+)\.\d+(?:-[\w.]+)?$/.exec(version)?.[1];
  if (name === undefined) throw new RangeError(`Invalid version "${version}": expected 1.2.3`);
  const index = join(into, INDEX);
  const known: readonly SiteVersion[] = existsSync(index)
    ? JSON.parse(readFileSync(index, "utf8")).versions
    : [];
  const versions = [{ name, version }, ...known.filter((it) => it.name !== name)]
    .sort((a, b) => b.name.localeCompare(a.name, "en", { numeric: true }));
  const latest = (versions.find((it) => !it.version.includes("-")) ?? versions[0])?.name ?? name;
  const folder = join(into, name);
  rmSync(folder, { recursive: true, force: true });
  copy(built, folder, `${base}${name}/`, version);
  if (latest === name) {
    // Only the files of the previous build: not the versions, nor the files of the host.
    const kept = new Set([...versions.map((it) => it.name), "CNAME"]);
    for (const entry of readdirSync(into).filter((it) => !kept.has(it) && !it.startsWith("."))) {
      rmSync(join(into, entry), { recursive: true });
    }
    copy(built, into, base, version);
  }
  writeFileSync(index, `${JSON.stringify({ latest, versions }, undefined, 2)}\n`);
  // GitHub Pages would leave out files by their names.
  writeFileSync(join(into, ".nojekyll"), "");
}

function copy(built: string, folder: string, base: string, version: string): void {
  const entries = readdirSync(built, { recursive: true, withFileTypes: true });
  for (const entry of entries.filter((it) => it.isFile())) {
    const source = join(entry.parentPath, entry.name);
    const target = join(folder, relative(built, source));
    mkdirSync(dirname(target), { recursive: true });
    if (!TEXT.test(entry.name)) copyFileSync(source, target);
    else {
      const text = readFileSync(source, "utf8").replaceAll(BASE, base)
        .replaceAll(className(BASE), className(base)).replaceAll(VERSION, version);
      writeFileSync(target, text);
    }
  }
}

/** Returns the start of the class that VitePress gives to a page under this base. */
function className(base: string): string {
  return base.replace(/[./]+/g, "_");
}

async function runCommand(): Promise<void> {
  const { values: { base, into, version } } = parseArgs({
    options: {
      base: { type: "string", default: "/" },
      into: { type: "string", default: join(root, "site") },
      version: { type: "string", default: readVersion(root) },
    },
  });
  const built = mkdtempSync(join(tmpdir(), "lastcall-docs-"));
  try {
    await buildSite(built);
    mkdirSync(into, { recursive: true });
    addVersion(built, into, base, version);
  } finally {
    rmSync(built, { recursive: true, force: true });
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) await runCommand();
