/**
 * 10. An evaluation that compares two prompts. The model is a script, so it needs no network.
 *
 *     node examples/10_evaluation.ts
 *
 * Press Ctrl+C in the middle: samples in flight are finished and recorded. Start it again: it continues, and
 * the report is the same as without the interruption.
 */

import { rm } from "node:fs/promises";
import process from "node:process";
import { AgentLoop, scriptedAdapter } from "../src/agents/mod.ts";
import { SqliteMailbox } from "../src/engines/sqlite/mod.ts";
import {
  adapt,
  allOf,
  contains,
  Dataset,
  type EvalRequest,
  type EvalResult,
  evaluate,
  FileJournal,
  showProgress,
  withinTokens,
} from "../src/evals/mod.ts";

const CAPITALS: Readonly<Record<string, string>> = {
  France: "Paris",
  Japan: "Tokyo",
  Kenya: "Nairobi",
  Peru: "Lima",
  Norway: "Oslo",
  Canada: "Ottawa",
};

/** Thirty questions: each country five times. */
const dataset = new Dataset<string, string>(
  Array.from({ length: 30 }, (_, i) => {
    const [country, capital] = Object.entries(CAPITALS)[i % 6]!;
    const id = `${country.toLowerCase()}-${Math.floor(i / 6) + 1}`;
    return { id, input: country, expected: capital };
  }),
);

/** Knows most capitals, is slow, and answers in long sentences unless the prompt forbids it. */
const model = scriptedAdapter(({ messages }) => {
  const question = messages.at(-1)!.content;
  const country = Object.keys(CAPITALS).find((name) => question.includes(name))!;
  const capital = country === "Canada" ? "Toronto" : CAPITALS[country]!;
  if (messages[0]!.content.includes("one word")) return capital;
  return `${country} is a lovely place, and what a question! Its capital is of course ${capital}.`;
}, { delayMs: 250 });

const database = "evaluation.db";
const journal = new FileJournal("evaluation.jsonl");
const requests = await SqliteMailbox.open<EvalRequest<string, string>, EvalResult<string>>(
  database,
  { name: "requests" },
);
const results = await SqliteMailbox.open<EvalResult<string>>(database, { name: "results" });

const { report, complete } = await evaluate({
  id: "capitals",
  dataset,
  experiments: [
    { name: "chatty", variables: { style: "Answer politely." } },
    { name: "terse", variables: { style: "Answer in one word." } },
  ],
  agent: ({ variables }) =>
    new AgentLoop<string>({
      adapter: model,
      prepare: (country) => ({
        prompt: {
          messages: [
            { role: "system", content: String(variables?.style) },
            { role: "user", content: `What is the capital of ${country}?` },
          ],
        },
      }),
    }),
  evaluator: allOf(
    adapt(contains, { output: (text: string) => text.trim() }),
    withinTokens(20),
  ),
  requests,
  results,
  journal,
  concurrency: 4,
  progress: showProgress(process.stderr),
});
await requests.close();
await results.close();

if (complete) {
  console.log(`\n${report}`);
  await Promise.all([database, journal.path].map((path) => rm(path)));
} else {
  console.log("\nStopped. Start it again, and it goes on from here.");
}
