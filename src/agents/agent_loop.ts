import { MailboxLoop } from "../loops/mailbox_loop.ts";
import { InMemoryMailbox } from "../mailbox/in_memory_mailbox.ts";
import { Agent } from "./_agent.ts";
import type { AgentLoopOptions, ExecuteOptions } from "./agent_options.ts";
import { type AgentRequest, type AgentResult, requestSchema } from "./agent_request.ts";

/**
 * Serves requests with a model: `prepare` makes a prompt, the adapter answers it, `finalize` may change
 * what comes out, and the result goes to the request's reply address.
 *
 * | what happens | what the requester hears | what becomes of the request |
 * |---|---|---|
 * | there is an output | the output | acknowledged |
 * | it fails, and there is no `deadLetter` policy | the error | acknowledged |
 * | it fails, and may be tried again | nothing yet | tried again after a pause |
 * | it has failed for good | the error | buried |
 * | the answer cannot be sent | nothing yet | only the answer is tried again |
 * | a stop cuts it short | nothing | given back |
 *
 * @example
 * ```ts
 * import { AgentLoop } from "@lastcall/lastcall";
 * import { scriptedAdapter } from "@lastcall/lastcall/agents";
 *
 * const loop = new AgentLoop<{ name: string }, string>({
 *   adapter: scriptedAdapter(({ messages }) => `Hello, ${messages[0]!.content}!`),
 *   prepare: ({ name }) => ({ prompt: { messages: [{ role: "user", content: name }] } }),
 * });
 * const { output } = await loop.execute({ request: { name: "Ada" } });
 * console.assert(output === "Hello, Ada!");
 * ```
 */
export class AgentLoop<I, O = string> extends MailboxLoop<AgentRequest<I>, AgentResult<O>> {
  readonly #agent: Agent<I, O>;

  /** Checks the options; nothing happens before `run` or `execute`. */
  constructor(options: AgentLoopOptions<I, O>) {
    const { requests, name = requests?.name ?? "agent" } = options;
    const agent = new Agent(name, options);
    super({
      ...options,
      name,
      mailbox: requests ?? new InMemoryMailbox(name),
      schema: requestSchema(options.schema),
      handler: (message, context) => agent.serve(message, context),
      onBury: async (message, reason) => {
        await agent.refuse(message, reason);
        await options.onBury?.(message, reason);
      },
    });
    this.#agent = agent;
  }

  /** Works on one request here and now, without a mailbox. A failure is in the result. */
  async execute(request: AgentRequest<I>, options: ExecuteOptions = {}): Promise<AgentResult<O>> {
    return await this.#agent.execute(request, options);
  }
}
