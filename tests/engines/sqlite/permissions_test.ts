import { describe, it } from "node:test";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { Child, runtimeName } from "../../signals/_child.ts";
import { ClosedFiles, unprivileged } from "./_permissions.ts";

const { wrapper, skip } = unprivileged;

// deno-fmt-ignore -- a table: what is wrong, the file, and what the error says to do
const cases: readonly (readonly [what: string, file: string, message: RegExp])[] = [
  ["a file that may not be read", "secret.db", /"[^"]*secret\.db" .*permission denied.*: give this process the right to read and write/i],
  ["a file that may not be written", "readonly.db", /"[^"]*readonly\.db" .*readonly.*: give this process the right to write/],
  ["a file in a folder that may not be entered", "closed/jobs.db", /"[^"]*closed\/jobs\.db" .*permission denied.*: give this process the right/i],
  ["a new file in a folder that may not be written", "readonly/new.db", /"[^"]*readonly\/new\.db" .*unable to open.*: give this process the right/i],
  ["a file in a folder that may not be written", "readonly/jobs.db", /"[^"]*readonly\/jobs\.db" .*readonly.*: give this process the right to write/],
  ["a folder", "folder.db", /"[^"]*folder\.db" .*directory.*: it is a folder; name a file/i],
  ["a file in a folder that is not there", "nowhere/jobs.db", /"[^"]*nowhere\/jobs\.db" .*no such file or directory.*: create the folder/i],
];

describe("a SQLite mailbox says what is wrong with", { skip }, () => {
  for (const [what, file, message] of cases) {
    it(what, async () => {
      using files = await ClosedFiles.make();
      await using child = Child.start("../../engines/sqlite/fixtures/closed_files", {
        wrapper,
        args: [files.path(file)],
      });
      const { stdout, stderr } = await child.exit();
      const lines = stdout.trimEnd().split("\n");
      assertEquals(lines.length, runtimeName === "bun" ? 2 : 1, stderr);
      for (const line of lines) {
        assert(line.includes("MailboxConnectionError"), line);
        assertMatch(line, message);
      }
    });
  }
});
