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

describe("Dataset", () => {
  it("Dataset reads and writes JSON Lines without changes", () => {
    const dataset = Dataset.parse<{ country: string }, string>(text);
    assertEquals([...dataset][0], {
      id: "fr",
      input: { country: "France" },
      expected: "Paris",
      tags: ["europe"],
    });
    assertEquals([dataset.size, dataset.toJsonl()], [3, text]);
  });

  it("Dataset accepts empty lines, CRLF line ends and a byte order mark", () => {
    const foreign = `\uFEFF${text.replaceAll("\n", "\r\n\r\n")}  \n`;
    assertEquals(Dataset.parse(foreign).toJsonl(), text);
    assertEquals(Dataset.parse("").size, 0);
  });

  it("Dataset reports every invalid line and the reason", () => {
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
    assertEquals(problems[0]?.slice(0, 15), "3: invalid JSON");
    assertEquals(problems.slice(1), [
      "4: expected an object, got an array",
      '5: expected "id" to be a non-empty string, got undefined',
      '6: expected "id" to be a non-empty string, got ""',
      '7: expected "id" to be a non-empty string, got 7',
      '8: expected an "input" in an object with keys [id]',
      '9: expected "tags" to be an array of strings, got "x"',
      '10: expected "tags" to be an array of strings, got an array',
      '11: duplicate id "a", first used in line 1',
      "12: expected an object, got null",
    ]);
  });

  it("Dataset lists at most ten problems in the error message", () => {
    const bad = (count: number) => () => Dataset.parse("{}\n".repeat(count));
    const why = 'expected "id" to be a non-empty string, got undefined';
    assertThrows(bad(1), DatasetError, `Invalid dataset: 1 invalid line: line 1: ${why}`);
    assertThrows(bad(12), DatasetError, `line 10: ${why}; and 2 more`);
  });

  it("Dataset checks samples that the constructor gets", () => {
    const samples = [{ id: "a", input: 1 }, { id: "a", input: 2 }, { input: 3 } as never];
    assertEquals(problemsOf(() => new Dataset(samples)), [
      '2: duplicate id "a", first used in sample 1',
      '3: expected "id" to be a non-empty string, got undefined',
    ]);
  });

  it("Dataset.take and Dataset.filter keep the order", () => {
    const dataset = Dataset.parse(text);
    const ids = (some: Iterable<{ readonly id: string }>) => Array.from(some, ({ id }) => id);
    assertEquals(ids(dataset.take(2)), ["fr", "jp"]);
    assertEquals(ids(dataset.take(9)), ["fr", "jp", "zero"]);
    assertEquals(ids(dataset.filter(({ expected }) => expected !== undefined)), ["fr", "jp"]);
    assertThrows(() => dataset.take(-1), RangeError, "Invalid count");
  });
});
