import { tmpdir } from "node:os";
import process from "node:process";
import { test } from "node:test";
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  ConsoleSession,
  difference,
  interruptsDue,
  parseCommands,
  type SessionOptions,
  whyNoTerminal,
} from "../../tools/console_blocks.ts";
import { runtimeBinary } from "../../tools/runtimes.ts";

test("parseCommands returns commands with their expected lines", () => {
  assertEquals(parseCommands("$ echo one \\\n    two\none two\n\nlast\n$ false\n$ echo $?\n1"), [
    { line: 1, text: "echo one \\\n    two", expected: ["one two", "", "last"], mayFail: false },
    { line: 6, text: "false", expected: [], mayFail: true },
    { line: 7, text: "echo $?", expected: ["1"], mayFail: false },
  ]);
});

test("parseCommands refuses a block that begins with output", () => {
  assertThrows(() => parseCommands("one\n$ echo one"), Error, "Output without a command: one");
});

// deno-fmt-ignore -- a table: what is expected, what is printed
const alike: readonly (readonly [name: string, expected: readonly string[], printed: string])[] = [
  ["the same lines", ["a", "b"], "a\nb\n"],
  ["nothing", [], "\n"],
  ["blanks at the end of lines", ["a"], "a  \n\n"],
  ["any text within a line", ["sent … (… ms)"], "sent 3 messages (12 ms)\n"],
  ["letters that mean something in patterns", ["a.b* [c] …"], "a.b* [c] $d\n"],
  ["any lines", ["a", "…", "b"], "a\n1\n2\nb\n"],
  ["no lines where any may be", ["a", "…", "b", "…"], "a\nb\n"],
  ["a line that comes again after any lines", ["…", "b", "c"], "b\nx\nb\nc\n"],
  ["a key that was pressed", ["a", "^C", "b"], "a\nb\n"],
];
for (const [name, expected, printed] of alike) {
  test(`alike: ${name}`, () => assertEquals(difference(expected, printed), undefined));
}

// deno-fmt-ignore -- a table: what is expected, what is printed, what people read
const unlike: readonly (readonly [string, readonly string[], string, string])[] = [
  ["another line", ["a", "b", "c"], "a\nx\nc\n", "  a\n- b\n- c\n+ x\n+ c"],
  ["a line that is missing", ["a", "b"], "a\n", "  a\n- b"],
  ["a line too many", ["a"], "a\nb\n", "  a\n+ b"],
  ["a part of a line", ["a"], "ab\n", "- a\n+ ab"],
  ["a line after any lines", ["a", "…", "z"], "a\n1\n2\n", "  a\n- z\n+ 1\n+ 2"],
  ["a dot that is not any letter", ["a.b"], "axb", "- a.b\n+ axb"],
];
for (const [name, expected, printed, told] of unlike) {
  test(`different: ${name}`, () => assertEquals(difference(expected, printed), told));
}

test("Ctrl+C is due after the complete lines before it", () => {
  const expected = ["starting …", "ready", "^C", "…", "stopping", "^C", "gone"];
  assertEquals(interruptsDue(expected, ""), 0);
  assertEquals(interruptsDue(expected, "starting up\nready"), 0);
  assertEquals(interruptsDue(expected, "starting up\nready\n"), 1);
  assertEquals(interruptsDue(expected, "starting up\nready\nwork\nstopping\n"), 2);
  assertEquals(interruptsDue(["a"], "a\n"), 0);
});

const node = runtimeBinary("node");

/** Repeats a console block in a shell of its own. */
async function repeat(text: string, options: Partial<SessionOptions> = {}): Promise<void> {
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
  const command = () => repeat("$ echo here; sleep 60\nhere", { timeoutMs: 300 });
  await assertRejects(command, Error, "not done after 300 ms");
});

test("a shell that exits is reported", async () => {
  await assertRejects(() => repeat("$ exit 4\n$ echo on\non"), Error, "the shell ended");
});

test("in a terminal, programs know it, and the lines are those on the screen", (t) => {
  const why = whyNoTerminal();
  if (why !== undefined) return t.skip(why);
  const program = waits(
    'process.on("SIGINT", () => { console.log("bye"); process.exit(); }); ' +
      'console.log(process.stdout.isTTY); process.stdout.write("wait\\x1b[1Gtea!\\n")',
  );
  return repeat(`$ cd /\n$ ${program}\ntrue\ntea!\nready\n^C\nbye\n$ pwd\n/`, { terminal: true });
});

test("in a terminal, unexpected output rejects with a diff", async (t) => {
  const why = whyNoTerminal();
  if (why !== undefined) return t.skip(why);
  const error = await assertRejects(() => repeat("$ echo a\nb", { terminal: true }), Error);
  assertEquals(error.message, "$ echo a\n- b\n+ a");
});
