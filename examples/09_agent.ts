/**
 * 9. An agent. Its model is a script, so it needs no network. Customers send requests, two agents answer them,
 * and the answers go to the reply mailbox. docs/recipes/agent.md has one with tools.
 *
 *     node examples/09_agent.ts
 *
 * Press Ctrl+C in the middle: the agents finish their current requests and start no new ones. To use a real
 * model, replace the script by `chatAdapter({ baseUrl, model, apiKey })`.
 */

import { InMemoryMailbox, LoopGroup, MailboxLoop, silentLog, StepLoop } from "../mod.ts";
import {
  AgentLoop,
  type AgentRequest,
  type AgentResult,
  scriptedAdapter,
} from "../src/agents/mod.ts";

const CITIES = ["Lisbon", "Oslo", "Kyoto", "Quito", "Tallinn"];

const requests = new InMemoryMailbox<AgentRequest<string>, AgentResult<string>>("questions");
const answers = new InMemoryMailbox<AgentResult<string>>("answers");

/** Sends requests faster than the agents can answer. It stops first. */
const customers = new StepLoop("customers", async ({ iteration, sleep }) => {
  const request = `${1 + iteration % 5} days in ${CITIES[iteration % CITIES.length]}`;
  await requests.send({ request }, { replyTo: answers });
  await sleep(400);
}, { stopOrder: -1 });

/** Yields its answer word by word. Every seventh call fails, and is retried. */
let calls = 0;
const model = scriptedAdapter(({ messages }) => {
  if (++calls % 7 === 0) return new Error("the model is overloaded");
  const answer = `${messages.at(-1)!.content}: walk along the water, then get lost on purpose.`;
  return answer.split(" ").map((word) => `${word} `);
}, { delayMs: 60 });

const agents = new AgentLoop<string>({
  requests,
  adapter: model,
  concurrency: 2,
  deadlineMs: 5_000,
  budget: { maxTotalTokens: 200 },
  deadLetter: { maxDeliveries: 3 },
  log: silentLog,
  prepare: (content) => ({ prompt: { messages: [{ role: "user", content }] } }),
  finalize: (output) => output.trim(),
});

/** Prints the answers. It stops last, so that it prints all of them. */
const desk = new MailboxLoop<AgentResult<string>>({
  mailbox: answers,
  stopOrder: 1,
  handler: ({ body: { output, error } }) => console.log(error?.message ?? output),
});

console.log("Press Ctrl+C to close the agency.\n");
await new LoopGroup([customers, agents, desk], { shutdownTimeoutMs: 8_000 }).main();
