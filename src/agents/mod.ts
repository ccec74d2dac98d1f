/**
 * Adapters that connect an `AgentLoop` to model providers, and the types to write your own.
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
