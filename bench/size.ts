// What the core weighs: the bytes of its bundle, and where they come from.

import { posix } from "node:path";
import { gzipSync } from "node:zlib";
import { bundleCore } from "./_core_bundle.ts";
import { atMost, type Part } from "./_figures.ts";

const GOAL_BYTES = 12_000;
const CRUMBS_BYTES = 100;

/** What a program without messages takes. */
const LIFECYCLE = [
  "BaseLoop",
  "DrainReport",
  "GroupFailedError",
  "Heartbeat",
  "LoopGroup",
  "ShutdownCoordinator",
  "StepLoop",
  "systemClock",
  "Watchdog",
];

function row(name: string, code: string): string[] {
  const gzipped = gzipSync(code, { level: 9 }).byteLength;
  return [name, String(Buffer.byteLength(code)), String(gzipped)];
}

/** The size of the bundle, gzipped and not, and of each folder in it. */
export async function size(): Promise<Part> {
  const lifecycle = await bundleCore(LIFECYCLE);
  const whole = await bundleCore();
  const { sources } = whole;
  const gzipped = gzipSync(lifecycle.code, { level: 9 }).byteLength;

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
      row("the lifecycle core", lifecycle.code),
      row("mod.ts, all exports", whole.code),
      ...largestFirst.map(([folder, bytes]) => [`  ${folder}`, String(bytes), "      "]),
    ],
    goals: [atMost("lifecycle core, gzipped,", gzipped, GOAL_BYTES, (it) => `${it} bytes`)],
  };
}
