import { TerminatingError } from "../errors.ts";
import { trackedBody } from "./_tracked_body.ts";
import { workerUrl } from "./_worker_url.ts";
import type { CallContext, PoolCall } from "./pool_call.ts";
import { CapacityError, UnreachableError } from "./pool_errors.ts";
import { terminatingErrorOf } from "./terminating_response.ts";
import type { WorkerAddress } from "./worker_address.ts";

/** What concerns one connection only, and is not handed on. */
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

/** The answers that were refusals, by the errors they were turned into. */
type Refusals = WeakMap<Error, Response>;

/** Hands a request on to a worker. `bound` requests are sent once, so that nothing is kept of them. */
export async function poolFetch(
  request: Request,
  bound: boolean,
  run: (call: PoolCall<Response>) => Promise<Response>,
): Promise<Response> {
  const refusals: Refusals = new WeakMap();
  const body = request.body === null ? null : bound ? request.body : await request.arrayBuffer();
  const headers = new Headers(request.headers);
  for (const name of HOP_BY_HOP) headers.delete(name);
  try {
    return await run((worker, context) => ask(worker, context, request, headers, body, refusals));
  } catch (error) {
    const refusal = refusals.get(error as Error);
    if (refusal === undefined) throw error;
    return refusal;
  }
}

async function ask(
  worker: WorkerAddress,
  context: CallContext,
  request: Request,
  headers: Headers,
  body: BodyInit | null,
  refusals: Refusals,
): Promise<Response> {
  const { signal, remainingMs, traceHeaders, noneHealthy, hold } = context;
  const { pathname, search } = new URL(request.url);
  const own = new Headers(headers);
  for (const [name, value] of Object.entries(traceHeaders)) own.set(name, value);
  if (remainingMs !== Infinity) own.set("x-lastcall-remaining-ms", remainingMs.toFixed(0));
  const init = {
    method: request.method,
    headers: own,
    body,
    signal,
    redirect: "manual",
    ...(body instanceof ReadableStream ? { duplex: "half" } : {}),
  } as RequestInit;

  const release = hold();
  let response: Response;
  try {
    response = await fetch(workerUrl(worker.url, pathname + search), init);
    if (response.status === 503 || response.status === 429) {
      const text = await response.text();
      const error = refusal(worker, response, text);
      refusals.set(error, handedOn(new Response(text, response), noneHealthy));
      throw error;
    }
  } catch (error) {
    release();
    if (signal.aborted || refusals.has(error as Error)) throw error;
    throw new UnreachableError(`Worker "${worker.id}" cannot be reached`, { cause: error });
  }
  return trackedBody(handedOn(response, noneHealthy), release);
}

function refusal({ id }: WorkerAddress, { status }: Response, text: string): Error {
  const terminating = status === 503 ? terminatingErrorOf(text) : undefined;
  if (terminating === undefined) {
    return new CapacityError(`Worker "${id}" has no room: it answered ${status}`);
  }
  return new TerminatingError(`Worker "${id}" is stopping: ${terminating.message}`);
}

/** An answer as it goes on to the caller: what was compressed has been unpacked on the way. */
function handedOn(response: Response, noneHealthy: boolean): Response {
  const headers = new Headers(response.headers);
  const packed = headers.has("content-encoding");
  for (const name of HOP_BY_HOP) if (name !== "content-length" || packed) headers.delete(name);
  if (packed) headers.delete("content-encoding");
  if (noneHealthy) headers.set("x-lastcall-none-healthy", "true");
  const { status, statusText, body } = response;
  return new Response(body, { status, statusText, headers });
}
