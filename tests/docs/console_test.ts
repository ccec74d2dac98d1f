import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, test } from "node:test";
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { whyNoTerminal } from "../../tools/console_blocks.ts";
import { fencedBlocks } from "../../tools/markdown.ts";
import { run } from "../../tools/process.ts";
import type { RuntimeName } from "../../tools/runtimes.ts";
import { machineNode } from "../package/consumer.ts";
import { Desk } from "./_desk.ts";
import { documents } from "./_documents.ts";
import { blocksToFollow, follow, whereTo } from "./_reader.ts";

const runtimes: readonly RuntimeName[] = ["node", "bun", "deno"];

// Not in a hook: when packing fails it fails once, not once for every test.
const desk = await Desk.make();
after(() => desk[Symbol.dispose]());

for (const document of documents) {
  for (const runtime of runtimes) {
    const consoles = blocksToFollow(document, runtime).filter((it) => it.language === "console");
    if (consoles.length === 0) continue;
    const terminal = consoles.some(({ markers }) => whereTo(document, markers) === "empty");
    const why = terminal ? whyNoTerminal() : undefined;
    test(`${document.path} is true on ${runtime}`, (t) => {
      return why === undefined ? follow(document, runtime, desk) : t.skip(why);
    });
  }
}

for (const runtime of runtimes) {
  test(`where a document is followed on ${runtime}, the command runs there`, async () => {
    const told =
      "```console\n$ lastcall doctor --platform none\n…\nok       runtime     NAME …\n…\n```";
    const blocks = fencedBlocks(told.replace("NAME", runtime));
    await follow({ path: "doctor.md", blocks }, runtime, desk);
  });
}

for (const [runtime, start] of [["bun", "bun"], ["deno", "deno run -A"]] as const) {
  test(`the README's program runs on ${runtime} as it says`, async () => {
    const readme = documents.find(({ path }) => path === "README.md");
    const program = readme?.blocks.filter(({ markers }) => markers.get("file") === "worker.mts") ??
      [];
    const session = fencedBlocks(
      "```console\n$ lastcall send 'sqlite:./jobs.db?queue=mails' '{\"to\":\"ada\"}'\n…\n" +
        `$ ${start} worker.mts\na mail to ada\n^C\n…\n\`\`\``,
    );
    await follow({ path: "README.md", blocks: [...program, ...session] }, runtime, desk);
  });
}

test("troubleshooting.md shows what Node 20 says", async (t) => {
  const node = await machineNode();
  if (node === undefined || !/^v20\./.test(node.version)) {
    return t.skip("this machine has no Node 20");
  }
  const blocks = documents.find(({ path }) => path === "docs/troubleshooting.md")?.blocks ?? [];
  const told = blocks.find(({ language, text }) => language === "text" && /SQLite/.test(text));
  const [extension = "", driver = ""] = told?.text.split("\n") ?? [];
  const { cwd } = await desk.project("node");
  await writeFile(join(cwd, "worker.mts"), "");
  const lastcall = join("node_modules", "lastcall", "dist", "cli", "bin.js");
  const send = [lastcall, "send", "sqlite:./jobs.db", "1"];
  assertStringIncludes((await run(node.path, ["worker.mts"], { cwd })).output, extension);
  assertStringIncludes((await run(node.path, send, { cwd })).output, driver);
  assertEquals([extension, driver].map((it) => it.length > 20), [true, true]);
});

for (const runtime of runtimes) {
  test(`an empty folder on ${runtime} has neither the package nor another runtime`, async (t) => {
    const why = whyNoTerminal();
    if (why !== undefined) return t.skip(why);
    const session = "<!-- in: empty -->\n```console\n$ echo *\n*\n$ test -t 1\n" +
      `$ type -p node bun deno\n…/${runtime}\n$ echo $?\n1\n\`\`\``;
    await follow({ path: "empty.md", blocks: fencedBlocks(session) }, runtime, desk);
  });
}

/** What a document can say. */
const text = `
<!-- file: src/tea.ts -->
~~~ts ignore
import { LoopGroup, StepLoop } from "lastcall";
const tea = new StepLoop("tea", ({ sleep }) => (console.log("a cup"), sleep(60_000)));
await new LoopGroup([tea]).main();
~~~

<!-- on: node -->
~~~console
$ node src/tea.ts
a cup
^C
…
~~~

~~~console [Bun]
$ bun src/tea.ts
a cup
^C
…
~~~

<!-- on: deno -->
~~~console
$ deno run -A src/tea.ts
a cup
^C
…
~~~

<!-- skip: nobody has it -->
~~~console
$ no-such-program
~~~

<!-- in: clone -->
~~~console
$ ls mod.ts
mod.ts
~~~
`.replaceAll("~~~", "```");

for (const runtime of runtimes) {
  test(`a document is followed on ${runtime}, from a file to a Ctrl+C`, async () => {
    await follow({ path: "tea.md", blocks: fencedBlocks(text) }, runtime, desk);
  });
}

for (const runtime of runtimes) {
  test(`where a comment names the command for ${runtime}, a reader follows it`, async () => {
    const told = `
<!-- file: name.mts -->
~~~ts ignore
const { versions } = process;
console.log(versions.bun ? "bun" : versions.deno ? "deno" : "node");
~~~

~~~console
$ node name.mts   # or bun name.mts, deno run -A name.mts
${runtime}
~~~
`.replaceAll("~~~", "```");
    await follow({ path: "name.md", blocks: fencedBlocks(told) }, runtime, desk);
  });
}

test("blocks for other runtimes and skipped blocks are left out", () => {
  const document = { path: "tea.md", blocks: fencedBlocks(text) };
  const lines = (runtime: RuntimeName) => blocksToFollow(document, runtime).map((it) => it.line);
  assertEquals(lines("node"), [3, 10, 38]);
  assertEquals(lines("deno"), [3, 25]);
});

test("a document with wrong output is reported with the line and the difference", async () => {
  const wrong = "# Tea\n\n```console\n$ echo coffee\ntea\n```\n";
  const document = { path: "tea.md", blocks: fencedBlocks(wrong) };
  const error = await assertRejects(() => follow(document, "node", desk), Error);
  assertEquals(error.message, "tea.md:4\n$ echo coffee\n- tea\n+ coffee");
});
