// The answers of a provider of models.

import { assert } from "@std/assert";
import * as fc from "fast-check";
import { chatAdapter } from "../../src/agents/adapters/chat.ts";
import { BudgetTracker } from "../../src/agents/budget.ts";
import { outcomeOf } from "./_decoding.ts";
import type { Target } from "./_fuzz.ts";
import { mutated, sometimesLong, swapped, text } from "./_inputs.ts";

const chunk = fc.record({
  choices: fc.array(
    fc.record({
      delta: fc.record({ content: fc.oneof(text, fc.constant(null)) }),
      finish_reason: fc.constantFrom("stop", null),
    }),
    { maxLength: 2 },
  ),
  usage: fc.option(fc.record({ prompt_tokens: fc.nat(), completion_tokens: fc.nat() })),
  error: fc.constant(null),
}, { requiredKeys: [] });

/** Answers of a model. */
export interface Answer {
  readonly status: number;
  readonly retryAfter: string;
  readonly date: string;
  readonly events: readonly string[];
}

/** An answer of a provider is text and tokens, or one of the documented errors. */
export const chats = (make: typeof chatAdapter = chatAdapter): Target<Answer> => ({
  name: "chat_answer",
  inputs: fc.record({
    status: fc.constantFrom(200, 200, 200, 200, 400, 429, 503),
    retryAfter: sometimesLong(
      mutated(fc.constantFrom("5", "0.5", "Wed, 21 Oct 2099 07:28:00 GMT", "9".repeat(400))),
      "1",
      "1.",
    ),
    date: mutated(fc.constant("Wed, 21 Oct 2099 07:28:00 GMT")),
    events: fc.array(
      fc.oneof(
        swapped(chunk).map((it) => `data: ${JSON.stringify(it)}\n\n`),
        mutated(chunk.map((it) => `data: ${JSON.stringify(it)}\n\n`)),
        fc.constant("data: [DONE]\n\n"),
      ),
      { maxLength: 4 },
    ),
  }),
  holds: async ({ status, retryAfter, date, events }) => {
    const plain = (it: string) => it.replace(/[^\x20-\x7e]/g, "");
    const headers = { "retry-after": plain(retryAfter), date: plain(date) };
    const adapter = make({
      ...{ baseUrl: "http://model/v1", model: "m", apiKey: "key-of-the-user" },
      fetch: () => Promise.resolve(new Response(events.join(""), { status, headers })),
    });
    const budget = new BudgetTracker({});
    const prompt = { messages: [] };
    const context = { signal: new AbortController().signal, run: {}, budget } as never;
    const refusals = {
      names: ["ChatApiError", "RetryLaterError", "BudgetExceededError"],
      text: /^(Chat API|Model "m" takes no calls)/,
    };
    const outcome = await outcomeOf(async () => {
      for await (const part of adapter.evaluate(prompt, context)) {
        assert(typeof part === "string", `part ${part}`);
      }
    }, refusals);
    const { inputTokens, outputTokens } = budget.used;
    assert(inputTokens >= 0 && outputTokens >= 0, `${inputTokens} and ${outputTokens} tokens`);
    if (!("error" in outcome)) return;
    assert(!outcome.error.message.includes("key-of-the-user"));
    const { delayMs } = outcome.error as { readonly delayMs?: number };
    assert(
      delayMs === undefined || Number.isFinite(delayMs) && delayMs >= 1_000,
      `retry after ${delayMs}`,
    );
  },
});
