import { describe, it } from "node:test";
import { assertEquals, assertThrows } from "@std/assert";
import { type Budget, BudgetExceededError, BudgetTracker } from "../../src/agents/budget.ts";

describe("BudgetTracker", () => {
  it("BudgetTracker without limits never throws", () => {
    const tracker = new BudgetTracker();
    tracker.spend({ inputTokens: 1e9, outputTokens: 1e9 });
    tracker.check();
    assertEquals(tracker.left, { inputTokens: Infinity, outputTokens: Infinity });
  });

  const cases: readonly (readonly [Budget, left: readonly [number, number]])[] = [
    [{ maxInputTokens: 10 }, [6, Infinity]],
    [{ maxOutputTokens: 10 }, [Infinity, 7]],
    [{ maxTotalTokens: 10 }, [3, 3]],
    [{ maxInputTokens: 5, maxTotalTokens: 10 }, [1, 3]],
  ];
  for (const [budget, [inputTokens, outputTokens]] of cases) {
    it(`BudgetTracker returns the tokens left of ${JSON.stringify(budget)}`, () => {
      const tracker = new BudgetTracker(budget);
      tracker.spend({ inputTokens: 4, outputTokens: 3 });
      assertEquals(tracker.left, { inputTokens, outputTokens });
      assertEquals(tracker.used, { inputTokens: 4, outputTokens: 3 });
    });
  }

  it("BudgetTracker allows the last token of a budget and throws beyond it", () => {
    const tracker = new BudgetTracker({ maxTotalTokens: 10 });
    tracker.spend({ inputTokens: 5, outputTokens: 5 });
    assertThrows(() => tracker.check(), BudgetExceededError, "maxTotalTokens 10");
    assertThrows(() => tracker.spend({ inputTokens: 0, outputTokens: 1 }), BudgetExceededError);
  });

  it("BudgetTracker rejects limits that are not whole numbers from 1", () => {
    for (const limit of [0, -1, 1.5, NaN, "5" as unknown as number]) {
      assertThrows(
        () => new BudgetTracker({ maxInputTokens: limit }),
        RangeError,
        "maxInputTokens",
      );
    }
  });
});
