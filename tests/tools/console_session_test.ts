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

test("variables and background jobs persist between commands", async () => {
  await repeat("$ name=tea   # a comment\n$ cd /\n$ echo $name in $PWD\ntea in /");
  await repeat("$ sleep 60 &\n$ kill %1; wait %1\n$ echo $?\n143");
});

test("output without a final newline and standard error are compared too", async () => {
  await repeat("$ printf one\none\n$ echo two >&2; echo three\ntwo\nthree\n$ true");
});

test("unexpected output rejects with a diff", async () => {
  const error = await assertRejects(() => repeat("$ printf 'a\\nb\\n'\na\nc"), Error);
  assertEquals(error.message, "$ printf 'a\\nb\\n'\n  a\n- c\n+ b");
});

test("a missing line rejects with a diff", async () => {
  const error = await assertRejects(() => repeat("$ echo a\na\nb"), Error);
  assertEquals(error.message, "$ echo a\n  a\n- b");
});

test("a command must succeed unless the next one shows its exit code", async () => {
  await assertRejects(() => repeat("$ (exit 3)"), Error, "exit code 3");
  await repeat("$ (exit 3)\n$ echo $?\n3");
});

/** A program that waits for a Ctrl+C; a shell could miss one while it starts another program. */
const waits = (then: string) =>
  `'${node}' -e '${then}; setInterval(() => {}, 1e6); console.log("ready");'`;

test("Ctrl+C reaches the command after the expected lines, and the shell continues", async () => {
  const program = waits('process.on("SIGINT", () => { console.log("bye"); process.exit(); })');
  await repeat(`$ ${program}\nready\n^C\nbye\n$ echo on\non`);
});

test("after Ctrl+C a command may exit with 130, and with no other code", async () => {
  await repeat(`$ ${waits("")}\nready\n^C\n$ echo on\non`);
  const other = waits('process.on("SIGINT", () => process.exit(3))');
  await assertRejects(() => repeat(`$ ${other}\nready\n^C`), Error, "exit code 3");
});

test("a command past its time limit is reported, and killed with its children", async () => {
  const command = () => repeat("$ echo here; sleep 60\nhere", 300);
  await assertRejects(command, Error, "not done after 300 ms");
});

test("a shell that exits is reported", async () => {
  await assertRejects(() => repeat("$ exit 4\n$ echo on\non"), Error, "the shell ended");
});
