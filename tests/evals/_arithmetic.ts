import { AgentLoop } from "../../src/agents/agent_loop.ts";
import { scriptedAdapter } from "../../src/agents/adapter.ts";
import {
  allOf,
  Dataset,
  type EvaluateOptions,
  exactMatch,
  type Experiment,
  sessionEvaluator,
} from "../../src/evals/mod.ts";

export type Options = EvaluateOptions<number, string, string>;

/** The number of samples, and of trials: each sample runs in two experiments. */
export const SAMPLES = 200;
export const TRIALS: number = 2 * SAMPLES;

/** Called for each model call and each score. */
export type OnCall = (what: "asked" | "scored", trial: string) => void;

/** Returns an evaluation of two slow calculators. One of them fails at every tenth sum. */
export function arithmetic(onCall: OnCall): Pick<
  Options,
  "id" | "dataset" | "experiments" | "agent" | "evaluator" | "concurrency"
> {
  const samples = Array.from({ length: SAMPLES }, (_, i) => i);
  const agent = ({ name }: Experiment) =>
    new AgentLoop<number>({
      adapter: scriptedAdapter((prompt, { run }) => {
        onCall("asked", run.requestId);
        const sum = Number(prompt.messages.at(-1)!.content) + 1;
        if (sum % 50 === 0) return new Error("too round");
        return name === "inexact" && sum % 10 === 0 ? "many" : String(sum);
      }, { delayMs: 8 }),
      prepare: (number) => ({ prompt: { messages: [{ role: "user", content: String(number) }] } }),
    });
  return {
    id: "arithmetic",
    dataset: new Dataset(samples.map((i) => ({ id: `n${i}`, input: i, expected: String(i + 1) }))),
    experiments: [{ name: "inexact" }, { name: "careful", variables: { patience: 1 } }],
    agent,
    evaluator: allOf(
      exactMatch<string>,
      sessionEvaluator(({ usage }) => usage.outputTokens === 1),
      (_output, _expected, { sample, experiment }) => {
        onCall("scored", `arithmetic/${experiment.name}/${sample.id}`);
        return true;
      },
    ),
    concurrency: 8,
  };
}
