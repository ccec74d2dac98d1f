/**
 * 9. An agent. A travel agency whose model is a script, so it needs no network. Customers send requests, two
 * agents answer them, and the answers go to the reply mailbox.
 *
 *     node examples/09_agent.ts
 *
 * Press Ctrl+C in the middle: the agents finish their current requests and start no new ones.
 *
 * To use a real model, replace the script by `chatAdapter({ baseUrl, model, apiKey })`.
 */

import { InMemoryMailbox, LoopGroup, MailboxLoop, silentLog, StepLoop } from "../mod.ts";
import {
  AgentLoop,
  type AgentRequest,
  type AgentResult,
  scriptedAdapter,
} from "../src/agents/mod.ts";

interface Question {
  readonly city: string;
  readonly days: number;
}

const CITIES = ["Lisbon", "Oslo", "Kyoto", "Quito", "Tallinn"];
const IDEAS = ["walk along the water", "eat what you cannot pronounce", "get lost on purpose"];
const pick = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)]!;

const requests = new InMemoryMailbox<AgentRequest<Question>, AgentResult<string>>("questions");
const answers = new InMemoryMailbox<AgentResult<string>>("answers");

/** Send requests faster than the agents can answer. They stop first. */
const customers = new StepLoop("customers", async ({ sleep }) => {
  const request = { city: pick(CITIES), days: 1 + Math.floor(Math.random() * 5) };
  await requests.send({ request }, { replyTo: answers });
  await sleep(400);
}, { stopOrder: -1 });

/** Streams its answer word by word, and sometimes fails. */
const model = scriptedAdapter(({ messages }) => {
  if (Math.random() < 0.15) return new Error("lost the thread");
  const words = `${messages.at(-1)!.content}: ${pick(IDEAS)}, then ${pick(IDEAS)}.`.split(" ");
  return words.map((word) => `${word} `);
}, { delayMs: 60 });

const agents = new AgentLoop<Question>({
  requests,
  adapter: model,
  concurrency: 2,
  deadlineMs: 5_000,
  budget: { maxTotalTokens: 200 },
  deadLetter: { maxDeliveries: 3 },
  backoff: { minMs: 200 },
  log: silentLog,
  prepare: ({ city, days }) => ({
    prompt: {
      messages: [
        { role: "system", content: "You are a travel agent of few words." },
        { role: "user", content: `${days} days in ${city}` },
      ],
    },
  }),
  finalize: (output) => output.trim(),
});

/** Prints the answers. It stops last, so that it prints all of them. */
const desk = new MailboxLoop<AgentResult<string>>({
  mailbox: answers,
  stopOrder: 1,
  handler: ({ body: { output, error, runContext: { attempt } } }) => {
    const again = attempt > 1 ? ` (attempt ${attempt})` : "";
    console.log(error === undefined ? `${output}${again}` : `No idea: ${error.message}`);
  },
});

console.log("Press Ctrl+C to close the agency.\n");
await new LoopGroup([customers, agents, desk], { shutdownTimeoutMs: 8_000 }).main();
