import { tmpdir } from "node:os";
import process from "node:process";
import { test } from "node:test";
import { assertEquals, assertRejects } from "@std/assert";
import { parseCommands } from "../../tools/console_blocks.ts";
import { ConsoleSession } from "../../tools/console_session.ts";
import { runtimeBinary } from "../../tools/runtimes.ts";

const node = runtimeBinary("node");

/** Repeats a console block in a shell of its own. */
async function repeat(text: string, timeoutMs?: number): Promise<void> {
  const options = timeoutMs === undefined ? {} : { timeoutMs };
  await using session = new ConsoleSession({ cwd: tmpdir(), env: { ...process.env }, ...options });
  for (const command of parseCommands(text)) await session.run(command);
}

test("what a command sets, and what it leaves in the background, is there for the next", async () => {
  await repeat("$ name=tea   # a comment\n$ cd /\n$ echo $name in $PWD\ntea in /");
  await repeat("$ sleep 60 &\n$ kill %1; wait %1\n$ echo $?\n143");
});

test("output without a last newline and output for errors are compared too", async () => {
  await repeat("$ printf one\none\n$ echo two >&2; echo three\ntwo\nthree\n$ true");
});

test("other output than expected is told with what differs", async () => {
  const error = await assertRejects(() => repeat("$ printf 'a\\nb\\n'\na\nc"), Error);
  assertEquals(error.message, "$ printf 'a\\nb\\n'\n  a\n- c\n+ b");
});

test("a line that is not printed is told", async () => {
  const error = await assertRejects(() => repeat("$ echo a\na\nb"), Error);
  assertEquals(error.message, "$ echo a\n  a\n- b");
});

test("a command must succeed unless the next one shows its exit code", async () => {
  await assertRejects(() => repeat("$ (exit 3)"), Error, "it ended with code 3");
  await repeat("$ (exit 3)\n$ echo $?\n3");
});

/** A program that waits for a Ctrl+C; a shell could miss one while it starts another program. */
const waits = (then: string) =>
  `'${node}' -e '${then}; setInterval(() => {}, 1e6); console.log("ready");'`;

test("Ctrl+C reaches the command once it printed what stands before, and the shell goes on", async () => {
  const program = waits('process.on("SIGINT", () => { console.log("bye"); process.exit(); })');
  await repeat(`$ ${program}\nready\n^C\nbye\n$ echo on\non`);
});

test("a command that a Ctrl+C ended may say so in its exit code, and only that", async () => {
  await repeat(`$ ${waits("")}\nready\n^C\n$ echo on\non`);
  const other = waits('process.on("SIGINT", () => process.exit(3))');
  await assertRejects(() => repeat(`$ ${other}\nready\n^C`), Error, "it ended with code 3");
});

test("a command that does not end in its time is told, and ended with what it started", async () => {
  const command = () => repeat("$ echo here; sleep 60\nhere", 300);
  await assertRejects(command, Error, "it was not done after 300 ms");
});

test("a shell that ends in the middle is told", async () => {
  await assertRejects(() => repeat("$ exit 4\n$ echo on\non"), Error, "the shell ended");
});
