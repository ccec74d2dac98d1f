import { EventSourceParserStream } from "eventsource-parser/stream";
import type { Adapter, AdapterContext, Prompt } from "../adapter.ts";
import type { TokenUsage } from "../budget.ts";

/** Options of {@linkcode chatAdapter}. */
export interface ChatAdapterOptions {
  /** Where the API begins, as in `https://api.example.com/v1`. */
  readonly baseUrl: string;
  /** The model's name, as the provider spells it. */
  readonly model: string;
  /** Sent as a bearer token, and never shown. */
  readonly apiKey?: string;
  /** Further parameters of every call, as `temperature`. */
  readonly parameters?: Readonly<Record<string, unknown>>;
  /** Sent with every call; they win over those that the adapter sets. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Makes the calls; a stand-in for tests, or one with a proxy. @default {globalThis.fetch} */
  readonly fetch?: typeof fetch;
}

/** The provider refused a call, or broke it off. */
export class ChatApiError extends Error {
  /** What a log or a `catch` tells it by. */
  override readonly name = "ChatApiError";
  /** The status of its answer; undefined when it broke off in the middle. */
  readonly status: number | undefined;

  /** Without a status for an answer that broke off. */
  constructor(message: string, status?: number, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

/** A piece of an answer, of which everything may be missing. */
interface Chunk {
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string | null };
    readonly finish_reason?: string | null;
  }[];
  readonly usage?: { readonly prompt_tokens?: number; readonly completion_tokens?: number } | null;
  readonly error?: { readonly message?: string };
}

/** As much of a refusal as helps. */
const LONGEST_EXCERPT = 300;

/**
 * Speaks the chat API that most providers and local servers understand, streaming.
 *
 * @example
 * ```ts ignore
 * import { chatAdapter } from "@lastcall/lastcall/agents";
 *
 * const adapter = chatAdapter({ baseUrl: "http://localhost:11434/v1", model: "llama3.2" });
 * ```
 */
export function chatAdapter(options: ChatAdapterOptions): Adapter {
  const url = chatUrl(options.baseUrl);
  return {
    name: options.model,
    async *evaluate(prompt, context) {
      context.budget.check();
      const response = await call(url, options, prompt, context);
      let [finished, usage]: [boolean, TokenUsage | undefined] = [false, undefined];
      for await (const chunk of chunks(response)) {
        const [choice] = chunk.choices ?? [];
        if (choice?.delta?.content) yield choice.delta.content;
        if (choice?.finish_reason) finished = true;
        if (chunk.usage) usage = usageOf(chunk.usage);
      }
      if (usage !== undefined) context.budget.spend(usage);
      if (!finished) throw new ChatApiError("The provider broke off in the middle of its answer");
    },
  };
}

async function call(
  url: URL,
  { model, apiKey, parameters, headers, fetch = globalThis.fetch }: ChatAdapterOptions,
  { messages }: Prompt,
  { signal, run, budget }: AdapterContext,
): Promise<Response> {
  const { outputTokens } = budget.left;
  const response = await fetch(url, {
    method: "POST",
    signal,
    headers: {
      "content-type": "application/json",
      ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
      ...(run.trace === undefined ? {} : { ...run.trace }),
      ...headers,
    },
    body: JSON.stringify({
      ...(outputTokens === Infinity ? {} : { max_tokens: outputTokens }),
      ...parameters,
      model,
      messages,
      stream: true,
      stream_options: { include_usage: true },
    }),
  });
  if (response.ok && response.body !== null) return response;
  const text = (await response.text()).slice(0, LONGEST_EXCERPT);
  throw new ChatApiError(`The provider answered ${response.status}: ${text}`, response.status);
}

async function* chunks(response: Response): AsyncGenerator<Chunk> {
  const events = response.body!
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream());
  for await (const { data } of events) {
    if (data === "[DONE]") return;
    const chunk = parse(data);
    if (chunk.error !== undefined) {
      throw new ChatApiError(`The provider broke off: ${chunk.error.message ?? data}`);
    }
    yield chunk;
  }
}

function parse(data: string): Chunk {
  try {
    return JSON.parse(data);
  } catch (error) {
    const excerpt = data.slice(0, LONGEST_EXCERPT);
    throw new ChatApiError(`The provider sent what is no JSON: ${excerpt}`, undefined, {
      cause: error,
    });
  }
}

function usageOf(usage: NonNullable<Chunk["usage"]>): TokenUsage {
  return { inputTokens: usage.prompt_tokens ?? 0, outputTokens: usage.completion_tokens ?? 0 };
}

function chatUrl(baseUrl: string): URL {
  try {
    return new URL(`${baseUrl.replace(/\/+$/, "")}/chat/completions`);
  } catch {
    throw new TypeError(`Invalid baseUrl: expected one like https://host/v1, got "${baseUrl}"`);
  }
}
