import { describe, it } from "node:test";
import { assertEquals, assertThrows } from "@std/assert";
import { Dataset, DatasetError } from "../../src/evals/dataset.ts";

const text = [
  '{"id":"fr","input":{"country":"France"},"expected":"Paris","tags":["europe"]}',
  '{"id":"jp","input":{"country":"Japan"},"expected":"Tokyo"}',
  '{"id":"zero","input":0}',
  "",
].join("\n");

function problemsOf(act: () => unknown): readonly string[] {
  const { problems } = assertThrows(act, DatasetError);
  return problems.map(({ line, why }) => `${line}: ${why}`);
}

describe("a dataset", () => {
  it("comes out of JSON lines as it went in", () => {
    const dataset = Dataset.parse<{ country: string }, string>(text);
    assertEquals([...dataset][0], {
      id: "fr",
      input: { country: "France" },
      expected: "Paris",
      tags: ["europe"],
    });
    assertEquals([dataset.size, dataset.toJsonl()], [3, text]);
  });

  it("does not mind empty lines, line ends of other systems and a mark at the beginning", () => {
    const foreign = `\uFEFF${text.replaceAll("\n", "\r\n\r\n")}  \n`;
    assertEquals(Dataset.parse(foreign).toJsonl(), text);
    assertEquals(Dataset.parse("").size, 0);
  });

  it("names every bad line, and why", () => {
    const lines = [
      '{"id":"a","input":1}',
      "",
      '{"id":"b","input":',
      '["c"]',
      '{"input":1}',
      '{"id":"","input":1}',
      '{"id":7,"input":1}',
      '{"id":"d"}',
      '{"id":"e","input":1,"tags":"x"}',
      '{"id":"e","input":1,"tags":[1]}',
      '{"id":"a","input":2}',
      "null",
    ];
    const problems = problemsOf(() => Dataset.parse(lines.join("\n")));
    assertEquals(problems[0]?.slice(0, 10), "3: no JSON");
    assertEquals(problems.slice(1), [
      "4: expected an object, got an array",
      '5: expected an "id" that is a text, got undefined',
      '6: expected an "id" that is a text, got ""',
      '7: expected an "id" that is a text, got 7',
      '8: expected an "input" in an object with keys [id]',
      '9: expected "tags" to be a list of texts, got "x"',
      '10: expected "tags" to be a list of texts, got an array',
      '11: the id "a" is that of line 1',
      "12: expected an object, got null",
    ]);
  });

  it("says in one message what is wrong, and no more than one can read", () => {
    const bad = (count: number) => () => Dataset.parse("{}\n".repeat(count));
    const why = 'expected an "id" that is a text, got undefined';
    assertThrows(bad(1), DatasetError, `The dataset has 1 bad line: line 1: ${why}`);
    assertThrows(bad(12), DatasetError, `line 10: ${why}; and 2 more`);
  });

  it("is checked without lines too", () => {
    const samples = [{ id: "a", input: 1 }, { id: "a", input: 2 }, { input: 3 } as never];
    assertEquals(problemsOf(() => new Dataset(samples)), [
      '2: the id "a" is that of sample 1',
      '3: expected an "id" that is a text, got undefined',
    ]);
  });

  it("can be narrowed, in its order", () => {
    const dataset = Dataset.parse(text);
    const ids = (some: Iterable<{ readonly id: string }>) => Array.from(some, ({ id }) => id);
    assertEquals(ids(dataset.take(2)), ["fr", "jp"]);
    assertEquals(ids(dataset.take(9)), ["fr", "jp", "zero"]);
    assertEquals(ids(dataset.filter(({ expected }) => expected !== undefined)), ["fr", "jp"]);
    assertThrows(() => dataset.take(-1), RangeError, "Invalid count");
  });
});
