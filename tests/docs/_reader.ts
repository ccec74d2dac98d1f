// A reader who does all that a document says, in the order in which it is said.
//
// Markers before a block tell what words tell people:
//   <!-- file: worker.ts -->   the block is the content of this file
//   <!-- in: clone -->         not in the project but in a clone of the repository
//   <!-- on: node, bun -->     only where `lastcall` runs on one of these
//   <!-- skip: why -->         nobody can do this everywhere
//
// A comment names the command for other runtimes, and a reader who has one of these follows it:
//   $ node worker.mts   # or bun worker.mts, deno run -A worker.mts

import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ConsoleSession, parseCommands } from "../../tools/console_blocks.ts";
import type { Block } from "../../tools/markdown.ts";
import type { RuntimeName } from "../../tools/runtimes.ts";
import type { Desk, Place } from "./_desk.ts";
import type { Document } from "./_documents.ts";

/** The blocks that a reader acts on where the command runs on this runtime. */
export function blocksToFollow(document: Document, runtime: RuntimeName): readonly Block[] {
  return document.blocks.filter(({ language, markers }) => {
    if (markers.has("skip")) return false;
    const runtimes = markers.get("on")?.split(/[\s,]+/) ?? [];
    if (runtimes.length > 0 && !runtimes.includes(runtime)) return false;
    // A clone brings its runtimes with it: once is enough.
    if (isInClone(document, markers) && runtime !== "node") return false;
    return language === "console" || markers.has("file");
  });
}

/** Follows a document; rejects with the place in it and what differs. */
export async function follow(document: Document, runtime: RuntimeName, desk: Desk): Promise<void> {
  const places = new Map<boolean, { place: Place; session: ConsoleSession }>();
  const open = async (clone: boolean) => {
    const place = clone ? await desk.clone() : await desk.project(runtime);
    const opened = { place, session: new ConsoleSession(place) };
    places.set(clone, opened);
    return opened;
  };
  try {
    for (const block of blocksToFollow(document, runtime)) {
      const clone = isInClone(document, block.markers);
      const { place, session } = places.get(clone) ?? await open(clone);
      const file = block.markers.get("file");
      if (file !== undefined) await write(join(place.cwd, file), block.text);
      else await repeat(document, block, session, runtime);
    }
  } finally {
    for (const { session } of places.values()) await session[Symbol.asyncDispose]();
  }
}

/** Examples are part of the repository and not of the package. */
function isInClone({ path }: Document, markers: ReadonlyMap<string, string>): boolean {
  return (markers.get("in") ?? (path.startsWith("examples/") ? "clone" : "project")) === "clone";
}

/** The command for a runtime, if a comment names it. */
function on(runtime: RuntimeName, text: string): string {
  const [, others = ""] = /#\s*or (.*)$/.exec(text) ?? [];
  return others.split(", ").find((it) => it.startsWith(`${runtime} `)) ?? text;
}

async function repeat(
  { path }: Document,
  { line, text }: Block,
  session: ConsoleSession,
  runtime: RuntimeName,
) {
  for (const command of parseCommands(text)) {
    await session.run({ ...command, text: on(runtime, command.text) }).catch((error) => {
      throw new Error(`${path}:${line + command.line}\n${error.message}`);
    });
  }
}

async function write(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, `${text}\n`);
}
