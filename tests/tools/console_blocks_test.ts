import { test } from "node:test";
import { assertEquals, assertThrows } from "@std/assert";
import { difference, interruptsDue, parseCommands } from "../../tools/console_blocks.ts";

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
