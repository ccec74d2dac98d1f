// What the core weighs: the bytes of its bundle, and where they come from.

import { posix } from "node:path";
import { gzipSync } from "node:zlib";
import { bundleCore } from "./_core_bundle.ts";
import { atMost, type Part } from "./_figures.ts";

const GOAL_BYTES = 12_000;
const CRUMBS_BYTES = 100;

/** The size of the bundle, gzipped and not, and of each folder in it. */
export async function size(): Promise<Part> {
  const { code, sources } = await bundleCore();
  const gzipped = gzipSync(code, { level: 9 }).byteLength;

  const folders = new Map<string, number>();
  for (const [path, bytes] of sources) {
    const folder = posix.dirname(path);
    folders.set(folder, (folders.get(folder) ?? 0) + bytes);
  }
  const largestFirst = [...folders].filter(([, bytes]) => bytes >= CRUMBS_BYTES)
    .sort(([, a], [, b]) => b - a);
  return {
    title: "The core as one minified bundle, bytes",
    table: [
      ["", "raw", "gzipped"],
      ["mod.ts, all exports", String(Buffer.byteLength(code)), String(gzipped)],
      ...largestFirst.map(([folder, bytes]) => [`  ${folder}`, String(bytes), "      "]),
    ],
    goals: [atMost("core bundle, gzipped,", gzipped, GOAL_BYTES, (it) => `${it} bytes`)],
  };
}
