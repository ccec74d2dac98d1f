/**
 * Adapters that connect an `AgentLoop` to model providers, and the types to write your own.
 *
 * @module
 */

export {
  type Adapter,
  type AdapterContext,
  type Prompt,
  scriptedAdapter,
  type ScriptedAdapterOptions,
  type ScriptedAnswer,
} from "./adapter.ts";
export { chatAdapter, type ChatAdapterOptions, ChatApiError } from "./adapters/chat.ts";
