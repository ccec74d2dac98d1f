import { describe, it } from "node:test";
import { assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import type { Adapter, Prompt } from "../../src/agents/adapter.ts";
import { scriptedAdapter } from "../../src/agents/adapter.ts";
import { Session } from "../../src/agents/session.ts";
import { systemClock } from "../../src/clock.ts";
import {
  adapt,
  allOf,
  anyOf,
  contains,
  type Evaluator,
  type EvaluatorContext,
  exactMatch,
  llmJudge,
  type Score,
  sessionEvaluator,
  withinTokens,
  withinTurns,
} from "../../src/evals/mod.ts";
import { silentLog } from "../../src/log.ts";

const PASS: Score = { value: 1, passed: true };

function contextOf(
  session = new Session(),
  signal = new AbortController().signal,
): EvaluatorContext {
  return {
    sample: { id: "s1", input: "What is it?" },
    experiment: { name: "default" },
    session,
    signal,
    beat: () => {},
    step: async (_, run) => await run(),
    clock: systemClock,
    log: silentLog,
  };
}

function fixed(score: Score): Evaluator<unknown> {
  return () => score;
}

describe("exactMatch", () => {
  it("exactMatch passes equal values, in any order of keys", () => {
    for (
      const [output, expected] of [
        ["a", "a"],
        [0, 0],
        [null, null],
        [[1, [2]], [1, [2]]],
        [{ a: 1, b: { c: [] } }, { b: { c: [] }, a: 1 }],
      ]
    ) assertEquals(exactMatch<unknown>(output, expected), PASS);
  });

  it("exactMatch fails different values and shows both", () => {
    for (
      const [output, expected] of [
        ["a", "A"],
        [1, "1"],
        [[1], { 0: 1 }],
        [[1, 2], [1]],
        [{ a: 1 }, { a: 1, b: 2 }],
        [{ a: undefined }, { b: undefined }],
        [null, {}],
      ]
    ) assertEquals(exactMatch<unknown>(output, expected).passed, false);
    assertEquals(exactMatch("Lyon", "Paris").reason, 'expected "Paris", got "Lyon"');
    const long = `expected "y", got "${"x".repeat(79)}…`;
    assertEquals(exactMatch("x".repeat(500), "y").reason, long);
  });

  it("exactMatch throws when the sample has no expected value", () => {
    assertThrows(() => exactMatch("a", undefined), TypeError, 'no "expected"');
  });
});

describe("contains", () => {
  it("contains passes when the output contains all strings, and scores the share of them", () => {
    assertEquals(contains("It is Paris.", "Paris"), PASS);
    assertEquals(contains("Paris and Rome", ["Rome", "Paris"]), PASS);
    assertEquals(contains("Paris", ["Rome", "Paris"]), {
      value: 0.5,
      passed: false,
      reason: '"Rome" not in "Paris"',
    });
  });

  it("contains throws when the output or the expected value is not a string", () => {
    assertThrows(() => contains("a", undefined), TypeError, 'no "expected"');
    assertThrows(() => contains(7 as never, "a"), TypeError, "not a string: 7");
  });
});

describe("combined evaluators", () => {
  const low = fixed({ value: 0.2, passed: false, reason: "too low" });
  const high = fixed({ value: 0.8, passed: true, reason: "fine" });
  const silent = fixed({ value: 0, passed: false });

  it("allOf passes when all pass, with the mean of their values", async () => {
    assertEquals(await allOf(high, low, silent)("", undefined, contextOf()), {
      value: 1 / 3,
      passed: false,
      reason: "too low",
    });
    assertEquals(await allOf(high, () => true)("", undefined, contextOf()), {
      value: 0.9,
      passed: true,
      reason: "fine",
    });
  });

  it("anyOf passes when one passes, with the highest value", async () => {
    const score = { value: 0.8, passed: true, reason: "fine" };
    assertEquals(await anyOf(low, high)("", undefined, contextOf()), score);
    assertEquals(await anyOf(low, silent)("", undefined, contextOf()), {
      value: 0.2,
      passed: false,
      reason: "too low",
    });
  });

  it("adapt converts the output and the expected value", async () => {
    const tidy = (text: string) => text.trim().toLowerCase();
    const evaluator = adapt(exactMatch<string>, { output: tidy, expected: tidy });
    assertEquals(await evaluator(" PARIS ", "Paris", contextOf()), PASS);
    const field = adapt(exactMatch<string>, { output: (it: { city: string }) => it.city });
    assertEquals(await field({ city: "Paris" }, "Paris", contextOf()), PASS);
    assertThrows(() => evaluator("a", undefined, contextOf()), TypeError, 'no "expected"');
  });

  it("allOf, anyOf and adapt reject anything but evaluator functions", () => {
    assertThrows(() => allOf(), TypeError, "Invalid allOf");
    assertThrows(() => anyOf(1 as never), TypeError, "Invalid anyOf");
    assertThrows(() => adapt(undefined as never, {}), TypeError, "Invalid adapt");
  });
});

describe("session evaluators", () => {
  const session = new Session();
  session.record({ role: "user", content: "?" }, { role: "assistant", content: "!" });
  session.spent({ inputTokens: 30, outputTokens: 12 });
  const context = contextOf(session);

  it("sessionEvaluator scores the session", async () => {
    const evaluator = sessionEvaluator(({ turns }) => turns.at(-1)?.content === "!");
    assertEquals(await evaluator("", undefined, context), true);
  });

  it("withinTokens and withinTurns limit tokens and turns", async () => {
    assertEquals(await withinTokens(42)("", undefined, context), PASS);
    assertEquals(await withinTokens(41)("", undefined, context), {
      value: 0,
      passed: false,
      reason: "42 tokens, more than 41",
    });
    assertEquals(await withinTurns(2)("", undefined, context), PASS);
    assertEquals((await withinTurns(1)("", undefined, context) as Score).passed, false);
    assertThrows(() => withinTokens(-1), RangeError, "Invalid tokens");
    assertThrows(() => withinTurns(NaN), RangeError, "Invalid turns");
  });
});

describe("llmJudge", () => {
  const judge = async (answer: string, passAt = 0.7) => {
    const adapter = scriptedAdapter([answer]);
    return await llmJudge({ adapter, criteria: "short", passAt })("x", undefined, contextOf());
  };

  it("llmJudge sends criteria, input, expected value and output to the model", async () => {
    let asked: Prompt | undefined;
    const adapter = scriptedAdapter((prompt) => {
      asked = prompt;
      return '{"score": 1}';
    });
    await llmJudge({ adapter, criteria: "be short" })({ a: 1 }, "that", contextOf());
    assertEquals(
      asked?.messages[1]?.content,
      "<criteria>\nbe short\n</criteria>\n\n<input>\nWhat is it?\n</input>\n\n" +
        '<expected>\nthat\n</expected>\n\n<output>\n{\n  "a": 1\n}\n</output>',
    );
  });

  it("llmJudge finds the score in typical answers of models", async () => {
    const good = { value: 0.9, passed: true, reason: "fine" };
    const object = '{"score": 0.9, "reason": "fine"}';
    assertEquals(await judge(object), good);
    assertEquals(
      await judge(`Let me think {briefly}.\n\`\`\`json\n${object}\n\`\`\`\nDone.`),
      good,
    );
    assertEquals(await judge(`{"score": 0.1} is too strict, so: ${object}`), good);
    assertEquals(await judge('{"score": "0.9", "reason": "fine"}'), good);
    assertEquals(await judge('{"value": 0.9, "passed": true, "reason": "fine"}'), good);
    assertEquals(await judge('{"passed": false}'), { value: 0, passed: false });
    assertEquals(await judge('{"score": 0.5, "reason": "a } and a \\" within"}'), {
      value: 0.5,
      passed: false,
      reason: 'a } and a " within',
    });
    assertEquals(await judge('{"score": 0.5}', 0.5), { value: 0.5, passed: true });
    assertEquals(await judge('{"score": 0.9, "passed": false}'), { value: 0.9, passed: false });
  });

  it("llmJudge fails an answer without a readable score and quotes it", async () => {
    const unreadable = ["", "I like it", '{"score": 8}', '{"score": -1}', '{"score": "good"}'];
    for (
      const answer of [...unreadable, '{"score": 0.9', "{}", '["score", 1]', '{"score": null}']
    ) {
      const { value, passed, reason } = await judge(answer) as Score;
      assertEquals([value, passed], [0, false], answer);
      assertStringIncludes(reason ?? "", "no score in the answer: ");
    }
    const { reason } = await judge("x".repeat(100_000)) as Score;
    assertEquals(reason?.length, "no score in the answer: ".length + 203);
  });

  it("llmJudge parses an answer full of braces quickly", async () => {
    const startedAt = performance.now();
    const { passed } = await judge("{".repeat(200_000)) as Score;
    assertEquals([passed, performance.now() - startedAt < 5_000], [false, true]);
  });

  it("llmJudge throws when its model fails and when its signal aborts", async () => {
    const criteria = "short";
    const broken = llmJudge({ adapter: scriptedAdapter([new Error("busy")]), criteria });
    await assertRejects(async () => await broken("", undefined, contextOf()), Error, "busy");
    const hanging: Adapter = {
      name: "hanging",
      evaluate: () => ({ [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }) }),
    };
    const controller = new AbortController();
    const context = contextOf(new Session(), controller.signal);
    const asking = llmJudge({ adapter: hanging, criteria })("", undefined, context);
    controller.abort(new Error("enough"));
    await assertRejects(async () => await asking, Error, "enough");
  });

  it("llmJudge throws when its budget is exceeded", async () => {
    const adapter = scriptedAdapter(['{"score": 1}']);
    const judge = llmJudge({ adapter, criteria: "short", budget: { maxTotalTokens: 3 } });
    const error = await assertRejects(async () => await judge("", undefined, contextOf()), Error);
    assertEquals(error.name, "BudgetExceededError");
  });

  it("llmJudge rejects invalid options", () => {
    const adapter = scriptedAdapter([""]);
    const criteria = "short";
    assertThrows(() => llmJudge({ adapter: {} as never, criteria }), TypeError, "Invalid adapter");
    assertThrows(() => llmJudge({ adapter, criteria: " " }), TypeError, "Invalid criteria");
    assertThrows(() => llmJudge({ adapter, criteria, passAt: 2 }), RangeError, "Invalid passAt");
    const budget = { maxTotalTokens: 0 };
    assertThrows(() => llmJudge({ adapter, criteria, budget }), RangeError, "maxTotalTokens");
  });
});
