// Console blocks: the copy button takes the commands, without the prompts and the output.

import type { MarkdownOptions } from "vitepress";

type CodeTransformer = NonNullable<MarkdownOptions["codeTransformers"]>[number];
type Code = Parameters<NonNullable<CodeTransformer["code"]>>[0];
type Node = Code["children"][number];

/** The button leaves out elements of this class. */
const IGNORED = { class: "vp-copy-ignore" };

/** Marks what is not a command. */
export const copyCommands: CodeTransformer = {
  name: "lastcall:copy-commands",
  code(code) {
    if (this.options.lang !== "console") return;
    let goesOn = false;
    let commands = 0;
    code.children = code.children.flatMap((line, index, all) => {
      if (line.type !== "element") return [];
      const text = textOf(line);
      const prompt = text.startsWith("$ ") || (goesOn && text.startsWith("> "));
      const isCommand = prompt || goesOn;
      goesOn = isCommand && text.endsWith("\\");
      if (prompt) line.children.unshift(ignored({ type: "text", value: takeStart(line, 2) }));
      const before: Node[] = index === 0 ? [] : all.slice(index - 1, index);
      if (isCommand) return commands++ === 0 ? [...before.map(ignored), line] : [...before, line];
      return [...before, line].map(ignored);
    });
  },
};

function ignored(node: Node): Code {
  return { type: "element", tagName: "span", properties: IGNORED, children: [node] };
}

function textOf(node: Node): string {
  if (node.type === "text") return node.value;
  return node.type === "element" ? node.children.map(textOf).join("") : "";
}

/** Removes the first characters of an element, and returns them. */
function takeStart(node: Code, length: number): string {
  let taken = "";
  for (const child of node.children) {
    if (child.type === "element") taken += takeStart(child, length - taken.length);
    else if (child.type === "text") {
      const part = child.value.slice(0, length - taken.length);
      child.value = child.value.slice(part.length);
      taken += part;
    }
  }
  return taken;
}
