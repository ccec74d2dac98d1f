import type { HttpServer, RequestHandler, ServeOptions } from "../src/runtime.ts";

/** The few members that are needed, so that the other runtimes need no types of Deno's. */
interface DenoNamespace {
  serve(
    options: ServeOptions & { readonly onListen: () => void },
    handler: (request: Request, info: unknown) => Promise<Response>,
  ): DenoServer;
}

interface DenoServer {
  readonly addr: { readonly hostname: string; readonly port: number };
  shutdown(): Promise<void>;
}

/** A client that reads nothing of so much: sockets hold it, and it has gone out. */
const HELD_BY_SOCKETS = 65_536;
/** A body that is there is read within so many turns of the microtask queue. */
const TURNS = 8;

/** Serves with Deno's own server. */
export function serve(handler: RequestHandler, options: ServeOptions): Promise<HttpServer> {
  const { Deno } = globalThis as unknown as { readonly Deno: DenoNamespace };
  // The second argument is for handlers that know Deno.
  const answer = handler as (request: Request, info: unknown) => ReturnType<RequestHandler>;
  const serving = async (request: Request, info: unknown) =>
    toldWhenSent(await answer(request, info));
  return new Promise((resolve) => {
    const server = Deno.serve({ ...options, onListen() {} }, serving);
    const { hostname, port } = server.addr;
    resolve({ hostname, port, close: ({ signal }) => close(server, signal) });
  });
}

/** Nothing can cut connections off here: what is left then ends with the process. */
async function close(server: DenoServer, signal: AbortSignal): Promise<void> {
  let giveUp: () => void = () => {};
  const givenUp = new Promise<void>((resolve) => giveUp = resolve);
  if (signal.aborted) giveUp();
  signal.addEventListener("abort", giveUp, { once: true });
  await Promise.race([server.shutdown(), givenUp]);
  signal.removeEventListener("abort", giveUp);
}

/**
 * The same answer, of which Deno tells truly when it has gone out. A body that is no stream counts as
 * sent for Deno as soon as the server has it, although the client reads nothing: a long one becomes a
 * stream.
 */
async function toldWhenSent(response: Response): Promise<Response> {
  const { body } = response;
  if (body === null || response.bodyUsed || body.locked) return response;
  const reader = body.getReader();
  const reads = [reader.read()];
  const first = await atOnce(reads[0]!);
  if (first?.done) return new Response(new Uint8Array(0), response);
  let length: number | undefined;
  if (first !== undefined) {
    reads.push(reader.read());
    if ((await atOnce(reads[1]!))?.done) length = first.value.byteLength;
    if (length !== undefined && length <= HELD_BY_SOCKETS) {
      return new Response(first.value, response);
    }
  }
  const rest = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await (reads.shift() ?? reader.read());
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: (reason) => reader.cancel(reason),
  }, { highWaterMark: 0 });
  const sent = new Response(rest, response);
  if (length !== undefined) sent.headers.set("content-length", String(length));
  return sent;
}

/** What a promise resolves with, if that is known by now. */
async function atOnce<T>(promise: Promise<T>): Promise<T | undefined> {
  let value: T | undefined;
  promise.then((it) => value = it, () => {}); // whoever waits for it hears of a failure
  for (let turn = 0; turn < TURNS && value === undefined; turn++) await undefined;
  return value;
}
