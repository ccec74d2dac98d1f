import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { afterEach, beforeEach, describe, it, test } from "node:test";
import { assert, assertEquals, assertGreater, assertMatch } from "@std/assert";
import { openMailbox } from "../../mod.ts";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { lastcall } from "./_io.ts";
import { lacksLimits } from "./_limits.ts";

/** Returns all commands: `dlq show`. */
async function commands(of = ""): Promise<readonly string[]> {
  const [, list = ""] = (await help(of)).split("\nCommands:\n");
  const [own = ""] = list.split("\n\n");
  const names = [...own.matchAll(/^ {2}(\w+)/gm)].map(([, name]) => `${of} ${name}`.trim());
  const below = names.filter((name) => name !== "help").map(async (name) => {
    return [name, ...await commands(name)];
  });
  return (await Promise.all(below)).flat();
}

/** Returns the help of a command. */
async function help(command: string): Promise<string> {
  const { code, out } = await lastcall([...command.split(" ").filter(Boolean), "--help"]);
  assertEquals(code, 0);
  return out;
}

/** The lines of the Examples section, as a shell would get them. */
function examplesOf(text: string): readonly string[] {
  return [...text.matchAll(/^ {2}\$ (.*?) +# .+$/gm)].map(([, line = ""]) => line);
}

const all = await commands();

describe("--help", () => {
  for (const command of all) {
    it(`--help of ${command} has a description and examples`, async () => {
      const text = await help(command);
      const [, description = ""] = text.split("\n\n");
      assertMatch(description, /^[A-Z][^]*\.$/);
      assertGreater(examplesOf(text).length, 0, text);
      assertEquals(text.includes("\n\n\n"), false, "no gap of two lines");
    });
  }
});

test("--help lists all commands", () => {
  for (const name of ["run", "send", "dlq redrive", "demo"]) assert(all.includes(name), name);
});

describe("the examples of --help", () => {
  let folder: TempFolder;
  const before = process.cwd();
  beforeEach(() => {
    folder = new TempFolder();
    process.chdir(folder.path);
  });
  afterEach(() => {
    process.chdir(before);
    folder[Symbol.dispose]();
  });

  // Commands that run until a signal or need a server are tested elsewhere.
  const tried = [
    "send",
    "peek",
    "count",
    "queues",
    "cancel",
    "purge",
    "dlq",
    "dlq list",
    "dlq show",
    "dlq redrive",
    "dlq delete",
    "dlq purge",
    "cron next",
    "init",
  ];
  for (const command of tried) {
    it(`the examples of --help of ${command} work`, async () => {
      for (const line of examplesOf(await help(command))) await tryOut(line);
    });
  }

  for (const command of ["pause", "resume", "limit"]) {
    const skip = command === "limit" && lacksLimits;
    it(`the examples of --help of ${command} work on a queue`, { skip }, async () => {
      const lines = examplesOf(await help(command)).filter((line) => line.includes("sqlite:"));
      assertGreater(lines.length, 0);
      for (const line of lines) await tryOut(line);
    });
  }

  async function tryOut(line: string): Promise<void> {
    writeFileSync("orders.jsonl", '{"dish":"soup"}\n{"dish":"cake"}\n');
    await leaveDeadLetter("order-17");
    const [words, file] = line.split(" < ");
    const [, ...args] = [...words!.matchAll(/'([^']*)'|(\S+)/g)].map(([, a, b]) => a ?? b!);
    const input = file === undefined ? {} : { lines: readFileSync(file, "utf8").split("\n") };
    const { code, err } = await lastcall(args, { answer: "y", ...input });
    assertEquals(code, 0, `${line}\n${err}`);
  }
});

/** Leaves a dead letter with this id, and the message order-18. */
async function leaveDeadLetter(id: string): Promise<void> {
  await using mailbox = await openMailbox("sqlite:./jobs.db");
  await mailbox.resume(); // an example has paused it
  if (mailbox.capabilities.rateLimit) await mailbox.rateLimit(false);
  await mailbox.purge();
  await mailbox.deadLetters!.purge();
  await mailbox.send("tea", { id });
  const [message] = await mailbox.receive();
  await message!.deadLetter({ reason: "max_deliveries" });
  await mailbox.send("tea", { id: "order-18" });
}
