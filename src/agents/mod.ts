/**
 * Loops that answer requests with models, adapters that connect them to model providers, and the types to
 * write your own.
 *
 * @example
 * ```ts
 * import { AgentLoop, scriptedAdapter } from "@lastcall/lastcall/agents";
 *
 * const loop = new AgentLoop<{ name: string }, string>({
 *   adapter: scriptedAdapter(({ messages }) => `Hello, ${messages[0]!.content}!`),
 *   prepare: ({ name }) => ({ prompt: { messages: [{ role: "user", content: name }] } }),
 * });
 * const { output } = await loop.execute({ request: { name: "Ada" } });
 * console.assert(output === "Hello, Ada!");
 * ```
 *
 * @module
 */

import "../../mod.ts"; // provides the runtime, for programs that import no other entry

export { DeadlineExceededError, RetryLaterError } from "../errors.ts";
export type { TraceContext } from "../telemetry/trace_context.ts";
export { AgentLoop, AgentLoop as MainLoop } from "./agent_loop.ts";
export type {
  AgentBundle,
  AgentContext,
  AgentLoopOptions,
  AgentRequest,
  AgentResult,
  AttemptEnd,
  ExecuteOptions,
  Prepared,
  ResultError,
} from "./agent_types.ts";
export {
  type Adapter,
  type AdapterContext,
  NoAnswerError,
  type Prompt,
  type RunContext,
  scriptedAdapter,
  type ScriptedAdapterOptions,
  type ScriptedAnswer,
} from "./adapter.ts";
export { type Budget, BudgetExceededError, BudgetTracker, type TokenUsage } from "./budget.ts";
export { type Role, Session, type SessionRecord, type Turn } from "./session.ts";
export { chatAdapter, type ChatAdapterOptions, ChatApiError } from "./adapters/chat.ts";
