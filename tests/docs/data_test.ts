import { test } from "node:test";
import { assertEquals, assertMatch } from "@std/assert";
import { run } from "../../tools/process.ts";
import { runtimeBinary } from "../../tools/runtimes.ts";
import { documents } from "./_documents.ts";

// Bun reads YAML and TOML without a package; several documents of YAML come as a list.
const read = `const [language, text] = process.argv.slice(1);
if (language === "yaml") Bun.YAML.parse(text); else Bun.TOML.parse(text);`;

const parse = (language: string, text: string) =>
  run(runtimeBinary("bun"), ["-e", read, language, text]);

test("a manifest that cannot be parsed is reported", async () => {
  assertEquals((await parse("yaml", "a: [1")).code, 1);
  assertEquals((await parse("toml", "a = ")).code, 1);
});

const INSTRUCTION = /^(FROM|WORKDIR|COPY|RUN|USER|ENV|EXPOSE|STOPSIGNAL|ENTRYPOINT|CMD|#|\s|$)/;
const SETTING = /^(\[\w+\]|[A-Z]\w+=.*|#.*|)$/;

for (const { path, blocks } of documents) {
  for (const { language, line, text } of blocks) {
    const place = `${path}:${line}`;
    if (language === "json") test(`${place} is JSON`, () => void JSON.parse(text));
    if (language === "yaml" || language === "toml") {
      test(`${place} is ${language.toUpperCase()}`, async () => {
        const { code, output } = await parse(language, text);
        assertEquals(code, 0, output);
      });
    }
    const shape = { dockerfile: INSTRUCTION, ini: SETTING }[language];
    if (shape) {
      test(`${place} is made of ${language === "ini" ? "settings" : "instructions"}`, () => {
        for (const it of text.split("\n")) assertMatch(it, shape, place);
      });
    }
  }
}
