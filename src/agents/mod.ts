/**
 * Model providers for an `AgentLoop`, and what an adapter of your own is written against.
 *
 * @module
 */

export type { Adapter, AdapterContext, Prompt } from "./adapter.ts";
export {
  scriptedAdapter,
  type ScriptedAdapterOptions,
  type ScriptedAnswer,
} from "./adapters/scripted.ts";
export { chatAdapter, type ChatAdapterOptions, ChatApiError } from "./adapters/chat.ts";
