// A reader who does all that a document says, in the order in which it is said.
//
// Markers before a block tell what words tell people:
//   <!-- file: worker.ts -->   the block is the content of this file
//   <!-- in: clone -->         not in a project that has the package, but in a clone of the repository
//   <!-- in: empty -->         in an empty folder on a machine that has one runtime only, in a terminal
//   <!-- on: node, bun -->     only where `lastcall` runs on one of these; the title of a tab does the
//                              same: ```console [Node]
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

/** The page for a reader who has nothing yet. */
const START = "docs/start.md";

/** The blocks that a reader acts on where the command runs on this runtime. */
export function blocksToFollow(document: Document, runtime: RuntimeName): readonly Block[] {
  return document.blocks.filter(({ language, attributes, markers }) => {
    if (markers.has("skip")) return false;
    const title = /^\[(\w+)\]$/.exec(attributes[0] ?? "")?.[1]?.toLowerCase();
    const runtimes = (markers.get("on") ?? title)?.split(/[\s,]+/) ?? [];
    if (runtimes.length > 0 && !runtimes.includes(runtime)) return false;
    // A clone brings its runtimes with it: once is enough.
    if (whereTo(document, markers) === "clone" && runtime !== "node") return false;
    return language === "console" || markers.has("file");
  });
}

/** Follows a document; rejects with the place in it and what differs. */
export async function follow(document: Document, runtime: RuntimeName, desk: Desk): Promise<void> {
  const places = new Map<Where, { place: Place; session: ConsoleSession }>();
  const open = async (where: Where) => {
    const place = await (where === "clone" ? desk.clone() : desk[where](runtime));
    const opened = { place, session: new ConsoleSession(place) };
    places.set(where, opened);
    return opened;
  };
  try {
    for (const block of blocksToFollow(document, runtime)) {
      const where = whereTo(document, block.markers);
      const { place, session } = places.get(where) ?? await open(where);
      const file = block.markers.get("file");
      if (file !== undefined) await write(join(place.cwd, file), block.text);
      else await repeat(document, block, session, runtime);
    }
  } finally {
    for (const { session } of places.values()) await session[Symbol.asyncDispose]();
  }
}

/** The kinds of places that a {@linkcode Desk} makes. */
type Where = "project" | "clone" | "empty";

/** Examples are part of the repository and not of the package; the first steps begin with nothing. */
export function whereTo({ path }: Document, markers: Block["markers"] = new Map()): Where {
  const usual = path === START ? "empty" : path.startsWith("examples/") ? "clone" : "project";
  return (markers.get("in") ?? usual) as Where;
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
