import { EventSourceParserStream } from "eventsource-parser/stream";
import type { Adapter, AdapterContext, Prompt } from "../adapter.ts";
import type { TokenUsage } from "../budget.ts";

/** Options of {@linkcode chatAdapter}. */
export interface ChatAdapterOptions {
  /** The base URL of the API, such as `https://api.example.com/v1`. */
  readonly baseUrl: string;
  /** The name of the model, as the provider spells it. It is also the name of the adapter. */
  readonly model: string;
  /** Sent as a bearer token. It never appears in errors or logs. */
  readonly apiKey?: string;
  /** More parameters of every call, such as `temperature`. */
  readonly parameters?: Readonly<Record<string, unknown>>;
  /** More headers of every call. They override the adapter's own. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Makes the HTTP calls, for a proxy or a test. @default {globalThis.fetch} */
  readonly fetch?: typeof fetch;
}

/** The provider rejected a call, or ended the stream too early. */
export class ChatApiError extends Error {
  /** The class name, for logs and for checks without `instanceof`. */
  override readonly name = "ChatApiError";
  /** The HTTP status of the response; undefined when the stream failed later. */
  readonly status: number | undefined;

  /** Creates the error, with the HTTP status if the provider rejected the call. */
  constructor(message: string, status?: number, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

/** An event of the stream. Providers leave out different fields. */
interface Chunk {
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string | null };
    readonly finish_reason?: string | null;
  }[];
  readonly usage?: { readonly prompt_tokens?: number; readonly completion_tokens?: number } | null;
  readonly error?: { readonly message?: string };
}

const MAX_EXCERPT_CHARACTERS = 300;

/**
 * Returns an adapter for the streaming chat completions API, which most providers and local servers offer.
 *
 * @throws {TypeError} when `baseUrl` is not a URL.
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
      if (!finished) {
        throw new ChatApiError("Chat API ended the stream before the answer was complete");
      }
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
  const text = (await response.text()).slice(0, MAX_EXCERPT_CHARACTERS);
  throw new ChatApiError(`Chat API returned status ${response.status}: ${text}`, response.status);
}

async function* chunks(response: Response): AsyncGenerator<Chunk> {
  const events = response.body!
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream());
  for await (const { data } of events) {
    if (data === "[DONE]") return;
    const chunk = parse(data);
    if (chunk.error !== undefined) {
      throw new ChatApiError(`Chat API reported an error: ${chunk.error.message ?? data}`);
    }
    yield chunk;
  }
}

function parse(data: string): Chunk {
  try {
    return JSON.parse(data);
  } catch (error) {
    const excerpt = data.slice(0, MAX_EXCERPT_CHARACTERS);
    throw new ChatApiError(`Chat API sent invalid JSON: ${excerpt}`, undefined, {
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
    throw new TypeError(`Invalid baseUrl: expected a URL like https://host/v1, got "${baseUrl}"`);
  }
}
