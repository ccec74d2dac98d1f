import { EventSourceParserStream } from "eventsource-parser/stream";
import { type Clock, systemClock } from "../../clock.ts";
import { RetryLaterError } from "../../errors.ts";
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
  /** Compares the date of a `retry-after` with the time, where the response has no date. @default {systemClock} */
  readonly clock?: Clock;
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
  readonly error?: { readonly message?: string } | null;
}

const MAX_EXCERPT_CHARACTERS = 300;

/** The statuses whose `retry-after` says when the provider takes calls again. */
const BUSY: ReadonlySet<number> = new Set([429, 503]);

/** The shortest pause after `retry-after`, also where it is 0 or in the past. */
const MIN_RETRY_AFTER_MS = 1_000;

/**
 * Returns an adapter for the streaming chat completions API, which most providers and local servers offer.
 *
 * When the provider answers 429 or 503 with `retry-after`, the adapter throws a {@linkcode RetryLaterError}: an
 * `AgentLoop` retries the request after that time, without spending an attempt. Other rejections throw a
 * {@linkcode ChatApiError}.
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
        const [choice] = Array.isArray(chunk.choices) ? chunk.choices : [];
        const content: unknown = choice?.delta?.content;
        if (typeof content === "string" && content !== "") yield content;
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
  options: ChatAdapterOptions,
  { messages }: Prompt,
  { signal, run, budget }: AdapterContext,
): Promise<Response> {
  const { model, apiKey, parameters, headers, fetch = globalThis.fetch } = options;
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
  throw await rejection(response, options);
}

/** Returns the error for a call that the provider rejected. */
async function rejection(
  response: Response,
  { model, clock = systemClock }: ChatAdapterOptions,
): Promise<ChatApiError | RetryLaterError> {
  const { status } = response;
  const text = (await response.text()).slice(0, MAX_EXCERPT_CHARACTERS);
  const error = new ChatApiError(`Chat API returned status ${status}: ${text}`, status);
  const delayMs = BUSY.has(status) ? retryAfterMs(response.headers, clock) : undefined;
  if (delayMs === undefined) return error;
  return new RetryLaterError(
    `Model "${model}" takes no calls for ${delayMs} ms (status ${status})`,
    { delayMs, cause: error },
  );
}

/**
 * Returns the pause that `retry-after` asks for: seconds, or a date by the clock of the provider, which `date`
 * tells. Undefined without a valid `retry-after`.
 */
function retryAfterMs(headers: Headers, clock: Clock): number | undefined {
  const text = headers.get("retry-after")?.trim() ?? "";
  if (/^\d+(\.\d+)?$/.test(text)) {
    return Math.max(MIN_RETRY_AFTER_MS, Math.min(Number(text) * 1_000, Number.MAX_SAFE_INTEGER));
  }
  const [at, date] = [Date.parse(text), Date.parse(headers.get("date") ?? "")];
  if (Number.isNaN(at) || !/^[a-z]/i.test(text)) return undefined;
  return Math.max(MIN_RETRY_AFTER_MS, at - (Number.isNaN(date) ? clock.now() : date));
}

async function* chunks(response: Response): AsyncGenerator<Chunk> {
  const events = response.body!
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream());
  for await (const { data } of events) {
    if (data === "[DONE]") return;
    const chunk = parse(data);
    // Some providers send `"error": null` in each event.
    if (chunk.error !== undefined && chunk.error !== null) {
      const message: unknown = chunk.error.message;
      const text = typeof message === "string" ? message : data.slice(0, MAX_EXCERPT_CHARACTERS);
      throw new ChatApiError(`Chat API reported an error: ${text}`);
    }
    yield chunk;
  }
}

function parse(data: string): Chunk {
  const excerpt = data.slice(0, MAX_EXCERPT_CHARACTERS);
  let chunk: unknown;
  try {
    chunk = JSON.parse(data);
  } catch (error) {
    throw new ChatApiError(`Chat API sent invalid JSON: ${excerpt}`, undefined, {
      cause: error,
    });
  }
  if (typeof chunk === "object" && chunk !== null) return chunk;
  throw new ChatApiError(`Chat API sent an event that is no object: ${excerpt}`);
}

function usageOf(usage: NonNullable<Chunk["usage"]>): TokenUsage {
  return {
    inputTokens: tokens(usage.prompt_tokens),
    outputTokens: tokens(usage.completion_tokens),
  };
}

/** A number of another form would make the budget useless. */
function tokens(count: unknown): number {
  return Number.isSafeInteger(count) && (count as number) >= 0 ? count as number : 0;
}

function chatUrl(baseUrl: string): URL {
  try {
    return new URL(`${baseUrl.replace(/\/+$/, "")}/chat/completions`);
  } catch {
    throw new TypeError(`Invalid baseUrl: expected a URL like https://host/v1, got "${baseUrl}"`);
  }
}
