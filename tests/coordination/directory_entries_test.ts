import { execFileSync } from "node:child_process";
import { mkdir, readdir, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { type Board, DirectoryMailbox, openDirectoryBoard } from "../../src/coordination/mod.ts";
import type { Log } from "../../src/log.ts";
import { silentLog } from "../../src/log.ts";
import { makeFolder } from "./_folder.ts";

/** Entries that are not messages, and how to create them. */
const ENTRIES: Readonly<Record<string, (path: string, outside: string) => Promise<unknown>>> = {
  "directory": (path) => mkdir(path),
  "symbolic link to itself": (path) => symlink(path, path),
  "symbolic link to nothing": (path, outside) => symlink(join(outside, "nothing"), path),
  "symbolic link to a file": (path, outside) => symlink(join(outside, "secret"), path),
  "pipe": (path) => Promise.resolve(execFileSync("mkfifo", [path])),
};

/** A name as scripts use it, and one as the mailbox uses it. */
const NAMES = ["x.json", "0000000000001-00000001-script~0~0~~x.json"];

async function age(path: string): Promise<void> {
  const longAgo = Date.now() / 1_000 - 60;
  await utimes(path, longAgo, longAgo).catch(() => {}); // a link may have no target
}

function recorder(): { readonly log: Log; readonly lines: string[] } {
  const lines: string[] = [];
  const warn = (text: string, fields?: unknown) => {
    lines.push(`${text} ${JSON.stringify(fields)}`);
  };
  return { log: { ...silentLog, warn }, lines };
}

async function openInbox(base: string, log: Log = silentLog): Promise<{
  readonly mailbox: DirectoryMailbox<string>;
  readonly folder: string;
  readonly inbox: string;
}> {
  const mailbox = await DirectoryMailbox.open<string>(base, "worker", { log });
  const folder = join(base, "worker");
  return { mailbox, folder, inbox: join(folder, "inbox") };
}

/** Receives and acknowledges all messages. */
async function receiveAll(mailbox: DirectoryMailbox<string>): Promise<string[]> {
  const bodies: string[] = [];
  for (;;) {
    const messages = await mailbox.receive({ maxMessages: 2 });
    if (messages.length === 0) return bodies.sort();
    bodies.push(...messages.map(({ body }) => body));
    await mailbox.acknowledgeMany(messages);
  }
}

describe("an inbox in a directory", { timeout: 30_000 }, () => {
  for (const [kind, make] of Object.entries(ENTRIES)) {
    for (const name of NAMES) {
      it(`moves a ${kind} named ${name} aside, logs it once, and delivers the messages`, async () => {
        await using base = await makeFolder();
        const { log, lines } = recorder();
        const { mailbox, folder, inbox } = await openInbox(base.path, log);
        await writeFile(join(base.path, "secret"), '"secret"');
        await mailbox.send("first");
        await make(join(inbox, name), base.path);
        await age(join(inbox, name));
        await mailbox.sendMany(["second", "third"]);

        assertEquals(await receiveAll(mailbox), ["first", "second", "third"]);
        assertEquals(await mailbox.approximateCount(), 0);
        assertEquals(await mailbox.deadLetters.receive(), []);
        assertEquals(lines.length, 1, lines.join("\n"));
        assertStringIncludes(lines[0]!, name);
        const [aside = "", ...others] = await readdir(join(folder, "aside"));
        assert(aside.endsWith(name) && others.length === 0, aside);
        await mailbox.close();
      });
    }
  }

  for (const text of ["{ half a checkp", "[]", '{"replyTo":1,"checkpoint":{}}']) {
    it(`delivers all messages when the extras of one are ${text}`, async () => {
      await using base = await makeFolder();
      const { log, lines } = recorder();
      const { mailbox, folder } = await openInbox(base.path, log);
      await mailbox.send("first");
      await mailbox.send("second", { replyTo: "answers" });
      await mailbox.send("third");
      const [more = ""] = await readdir(join(folder, "more"));
      await writeFile(join(folder, "more", more), text);
      const messages = await mailbox.receive({ maxMessages: 10 });
      assertEquals(messages.map(({ body }) => body), ["first", "second", "third"]);
      assertEquals(messages.map(({ replyTo, checkpoint }) => [replyTo, checkpoint]), [
        [undefined, undefined],
        [undefined, undefined],
        [undefined, undefined],
      ]);
      assertEquals(lines.length, 1, lines.join("\n"));
      assertStringIncludes(lines[0]!, more);
      // A later checkpoint is stored again.
      await messages[1]!.saveCheckpoint!({ page: 2 });
      await messages[1]!.nack();
      const [again] = await mailbox.receive();
      assertEquals([again?.body, again?.checkpoint], ["second", { page: 2 }]);
      await mailbox.close();
    });
  }

  it("delivers the files of scripts with long or similar names", async () => {
    await using base = await makeFolder();
    const { mailbox, inbox } = await openInbox(base.path);
    const names = ["a b", "a-b", `${"x".repeat(240)}1`, `${"x".repeat(240)}2`, "ü".repeat(120)];
    for (const name of names) {
      const path = join(inbox, `${name}.json`);
      await writeFile(path, JSON.stringify(name));
      await age(path);
    }
    assertEquals(await mailbox.approximateCount(), names.length);
    assertEquals(await receiveAll(mailbox), [...names].sort());
    await mailbox.close();
  });
});

describe("a board in a directory with a bad entry", { timeout: 30_000 }, () => {
  for (const [kind, make] of Object.entries(ENTRIES)) {
    it(`reports a ${kind} as a corrupt record, and reads the others`, async () => {
      await using base = await makeFolder();
      const folder = join(base.path, "state");
      await using board: Board = await openDirectoryBoard(folder);
      await writeFile(
        join(base.path, "secret"),
        '{"agent_id":"x","state":"running","timestamp":1}',
      );
      await board.setState("worker", "running");
      await make(join(folder, "x.json"), base.path);
      const found = (await board.list()).map(({ agentId, status }) => [agentId, status]);
      assertEquals(found, [["worker", "running"], ["x", "corrupt"]]);
      assertEquals((await board.getState("x")).status, "corrupt");
      assertEquals((await board.getState("worker")).status, "running");
    });
  }
});
