/**
 * 9. An agent: a travel agency that needs no network, since its model is a script. Customers ask, two agents
 * think, answers go back to who asked.
 *
 *     node examples/09_agent.ts
 *
 * Press Ctrl+C in the middle: what is being thought about is answered, nothing new is begun.
 *
 * For a real model put `chatAdapter({ baseUrl, model, apiKey })` in place of the script.
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

/** Ask faster than the agents can think. They stop first. */
const customers = new StepLoop("customers", async ({ sleep }) => {
  const request = { city: pick(CITIES), days: 1 + Math.floor(Math.random() * 5) };
  await requests.send({ request }, { replyTo: answers });
  await sleep(400);
}, { stopOrder: -1 });

/** Thinks aloud, word by word, and now and then forgets what it wanted to say. */
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

/** Reads the answers out. It stops last, so that the last answer is heard as well. */
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
