import { test } from "node:test";
import { assertEquals } from "@std/assert";
import { anchors, fencedBlocks, localLinks } from "../../tools/markdown.ts";

const text = `# A title, *with* marks: \`main()\`

See [the guide](docs/guide.md#first-part), [there](#a-title-with-marks-main), [a host](https://example.org),
![a picture](images/flow.svg "flow") and \`[code](not.md)\`.

<!-- in: clone -->
<!-- on: node, bun -->

\`\`\`console
$ ls
\`\`\`

- a list

  \`\`\`\`ts ignore
  \`\`\`
  # not a heading, [not a link](nowhere.md)
  \`\`\`\`

## Twice
## Twice
`;

test("fencedBlocks returns language, attributes, line and markers", () => {
  const [first, second, ...others] = fencedBlocks(text);
  assertEquals([first?.line, first?.language, first?.text], [9, "console", "$ ls"]);
  assertEquals([...first?.markers ?? []], [["in", "clone"], ["on", "node, bun"]]);
  assertEquals([second?.language, second?.attributes], ["ts", ["ignore"]]);
  assertEquals(second?.text, "```\n# not a heading, [not a link](nowhere.md)");
  assertEquals(others, []);
});

test("a marker belongs only to the next block", () => {
  const [first, second] = fencedBlocks("<!-- skip: why -->\n```ts\n```\n\n```ts\n```\n");
  assertEquals([first?.markers.get("skip"), second?.markers.size], ["why", 0]);
  assertEquals(fencedBlocks("<!-- skip: why -->\nwords\n```ts\n```\n")[0]?.markers.size, 0);
});

test("localLinks returns links to files and headings, and none in code or to hosts", () => {
  assertEquals(localLinks(text), [
    { line: 3, target: "docs/guide.md#first-part" },
    { line: 3, target: "#a-title-with-marks-main" },
    { line: 4, target: "images/flow.svg" },
  ]);
  assertEquals(localLinks('<img src="a.svg">'), [{ line: 1, target: "a.svg" }]);
});

test("anchors are those of GitHub", () => {
  assertEquals([...anchors(text)], ["a-title-with-marks-main", "twice", "twice-1"]);
});
