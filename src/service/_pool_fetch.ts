import { show } from "../_checks.ts";
import { TerminatingError } from "../errors.ts";
import { trackedBody } from "./_response_end.ts";
import {
  type CallContext,
  isBound,
  type PoolCall,
  type PoolRequestOptions,
  type WorkerAddress,
  workerUrl,
} from "./pool_options.ts";
import {
  CapacityError,
  errorIn,
  mayHaveStarted,
  terminatingErrorOf,
  UnreachableError,
} from "./service_errors.ts";

/** Headers of one connection, which are not forwarded. */
const HOP_BY_HOP: readonly string[] = [
  "connection",
  "content-length",
  "host",
  "keep-alive",
  "proxy-connection",
  "te",
  "transfer-encoding",
  "upgrade",
];

/** A shorter response ends for its worker even if the caller never reads it. */
const READ_AHEAD_BYTES = 65_536;

/** Methods without effects, so that a request may be executed twice. */
const SAFE: readonly string[] = ["GET", "HEAD", "OPTIONS", "TRACE"];

/** The error codes of Node and Bun for a failed connect. Deno has only a text. */
const NOT_CONNECTED: readonly unknown[] = [
  "ECONNREFUSED",
  "ConnectionRefused",
  "ENOTFOUND",
  "EAI_AGAIN",
  "UND_ERR_CONNECT_TIMEOUT",
];
const NOT_CONNECTED_TEXT = "client error (Connect)";

/** A request as the pool sends it to each worker. */
interface Outgoing {
  readonly method: string;
  readonly path: string;
  readonly headers: Headers;
  readonly body: () => BodyInit | null;
  /** The codes of a 503 that mean "at capacity". */
  readonly capacityCodes: readonly unknown[];
  /** The responses of refused requests, by their errors. */
  readonly refusals: WeakMap<Error, Response>;
}

/** Forwards a request to a worker. A request of a session is sent once, so its body is not buffered. */
export async function poolFetch(
  request: Request,
  options: PoolRequestOptions,
  capacityCodes: readonly unknown[],
  run: (call: PoolCall<Response>, options: PoolRequestOptions) => Promise<Response>,
): Promise<Response> {
  const { method } = request;
  const { pathname, search } = new URL(request.url);
  const kept = request.body === null || isBound(options)
    ? request.body
    : await request.arrayBuffer();
  const headers = new Headers(request.headers);
  for (const name of HOP_BY_HOP) headers.delete(name);
  const safe = SAFE.includes(method);
  const idempotent = options.idempotent ?? (safe || headers.has("idempotency-key"));
  const once = !idempotent && !safe;
  if (once && !(kept instanceof ReadableStream)) {
    headers.set("content-length", String(kept?.byteLength ?? 0));
  }
  const refusals = new WeakMap<Error, Response>();
  const body = () => once || kept instanceof ReadableStream ? sentOnce(kept) : kept;
  const outgoing = { method, path: pathname + search, headers, body, capacityCodes, refusals };
  try {
    const call: PoolCall<Response> = (worker, context) => send(worker, context, outgoing);
    return await run(call, { ...options, idempotent });
  } catch (error) {
    const refusal = refusals.get(error as Error);
    if (refusal === undefined) throw error;
    return refusal;
  }
}

/**
 * Returns a body that no `fetch` sends a second time. When a connection breaks, Deno repeats every
 * request whose body it still has, and Bun repeats PUT and DELETE. A consumed stream prevents both.
 */
function sentOnce(kept: ArrayBuffer | ReadableStream<Uint8Array> | null): ReadableStream {
  const reader = new Response(kept).body?.getReader();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await reader?.read() ?? { done: true };
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel(reason) {
      await reader?.cancel(reason);
    },
  }, { highWaterMark: 0 });
}

async function send(
  worker: WorkerAddress,
  context: CallContext,
  { method, path, headers, body: makeBody, capacityCodes, refusals }: Outgoing,
): Promise<Response> {
  const { signal, remainingMs, traceHeaders, noneHealthy, hold } = context;
  const own = new Headers(headers);
  for (const [name, value] of Object.entries(traceHeaders)) own.set(name, value);
  if (remainingMs !== Infinity) own.set("x-lastcall-remaining-ms", remainingMs.toFixed(0));
  const body = makeBody();
  const init = {
    method,
    headers: own,
    body,
    signal,
    redirect: "manual",
    ...(body instanceof ReadableStream ? { duplex: "half" } : {}),
  } as RequestInit;

  const release = hold();
  let response: Response;
  try {
    response = await fetch(workerUrl(worker.url, path), init);
    if (response.status === 503 || response.status === 429) {
      const bytes = await response.arrayBuffer();
      const error = refusal(worker, response.status, bytes, capacityCodes);
      response = new Response(bytes, response);
      if (error !== undefined) {
        refusals.set(error, forwarded(response, noneHealthy));
        throw error;
      }
    }
  } catch (error) {
    release();
    if (signal.aborted || refusals.has(error as Error)) throw error;
    throw unreachable(worker, `${method} ${path.replace(/\?.*/s, "")}`, error);
  }
  const tracking = { readAheadBytes: READ_AHEAD_BYTES, signal };
  return trackedBody(forwarded(response, noneHealthy), release, tracking);
}

/** Returns the error for a 503 or 429 that refuses the request; undefined for an ordinary response. */
function refusal(
  { id }: WorkerAddress,
  status: number,
  bytes: ArrayBuffer,
  capacityCodes: readonly unknown[],
): Error | undefined {
  if (status === 429) return new CapacityError(`Worker "${id}" is at capacity: it answered 429`);
  const text = new TextDecoder().decode(bytes);
  const terminating = terminatingErrorOf(text);
  if (terminating !== undefined) {
    const error = new TerminatingError(`Worker "${id}" is stopping: ${terminating.message}`);
    return Object.assign(error, { started: mayHaveStarted(terminating) });
  }
  const { code } = errorIn(text);
  if (!capacityCodes.includes(code)) return undefined;
  return new CapacityError(
    `Worker "${id}" is at capacity: it answered 503 with code ${show(code)}`,
  );
}

function unreachable({ id }: WorkerAddress, what: string, cause: unknown): UnreachableError {
  const started = !neverConnected(cause);
  const text = started
    ? `Worker "${id}" is unreachable: the connection broke after ${what} was sent, so the worker may ` +
      "have executed it. Send an Idempotency-Key if it may be executed twice."
    : `Worker "${id}" is unreachable: no connection for ${what}. Check that it runs at its URL.`;
  return new UnreachableError(text, { cause, started });
}

/** Returns true when it is certain that nothing was sent. */
function neverConnected(error: unknown): boolean {
  return [error, Object(error).cause].some((it) => {
    const { code, syscall, message } = Object(it);
    return NOT_CONNECTED.includes(code) || syscall === "connect" ||
      String(message).includes(NOT_CONNECTED_TEXT);
  });
}

/** Returns the response for the caller. `fetch` has decompressed the body, so those headers go. */
function forwarded(response: Response, noneHealthy: boolean): Response {
  const headers = new Headers(response.headers);
  const packed = headers.has("content-encoding");
  for (const name of HOP_BY_HOP) if (name !== "content-length" || packed) headers.delete(name);
  if (packed) headers.delete("content-encoding");
  if (noneHealthy) headers.set("x-lastcall-none-healthy", "true");
  const { status, statusText, body } = response;
  return new Response(body, { status, statusText, headers });
}
