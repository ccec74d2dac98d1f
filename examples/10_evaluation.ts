/**
 * 10. An evaluation that compares two prompts. The model is a script, so it needs no network.
 *
 *     node examples/10_evaluation.ts
 *
 * Press Ctrl+C in the middle: samples in flight are finished and recorded. Start it again: it continues.
 */

import { rm } from "node:fs/promises";
import { stderr } from "node:process";
import { AgentLoop, scriptedAdapter } from "../src/agents/mod.ts";
import { Dataset, evaluate, exactMatch, FileJournal, showProgress } from "../src/evals/mod.ts";

const CAPITALS: Readonly<Record<string, string>> = {
  France: "Paris",
  Japan: "Tokyo",
  Kenya: "Nairobi",
  Peru: "Lima",
  Norway: "Oslo",
  Canada: "Ottawa",
};

/** Thirty samples: each country five times. */
const dataset = new Dataset<string, string>(
  Array.from({ length: 30 }, (_, i) => {
    const [country, capital] = Object.entries(CAPITALS)[i % 6]!;
    return { id: `${country}-${Math.floor(i / 6) + 1}`, input: country, expected: capital };
  }),
);

/** Knows most capitals, and answers in sentences unless the prompt forbids it. */
const model = scriptedAdapter(({ messages: [system, question] }) => {
  const country = question!.content;
  const capital = country === "Canada" ? "Toronto" : CAPITALS[country]!;
  return system!.content.includes("one word") ? capital : `Its capital is of course ${capital}.`;
}, { delayMs: 250 });

const journal = new FileJournal("evaluation.jsonl");
const { report, complete } = await evaluate({
  id: "capitals",
  dataset,
  experiments: [
    { name: "chatty", variables: { style: "Answer politely." } },
    { name: "terse", variables: { style: "Answer in one word." } },
  ],
  agent: ({ variables }) => {
    const system = { role: "system", content: String(variables?.style) } as const;
    return new AgentLoop<string>({
      adapter: model,
      prepare: (content) => ({ prompt: { messages: [system, { role: "user", content }] } }),
    });
  },
  evaluator: exactMatch<string>,
  journal, // on disk, so that the next start knows the samples that are done
  concurrency: 4,
  progress: showProgress(stderr),
});
if (complete) await rm(journal.path);
console.log(complete ? `\n${report}` : "\nStopped. Start it again to continue.");
