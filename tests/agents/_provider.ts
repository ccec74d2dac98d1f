import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A request that the provider received. */
export interface Asked {
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  // deno-lint-ignore no-explicit-any -- any JSON
  readonly body: any;
}

/** A local HTTP server in place of a model provider. */
export class Provider implements AsyncDisposable {
  readonly asked: Asked[] = [];
  readonly #server: ReturnType<typeof createServer>;

  private constructor(answer: (response: ServerResponse) => Promise<void> | void) {
    this.#server = createServer(async (request, response) => {
      let text = "";
      for await (const piece of request) text += piece;
      const { url: path = "", headers } = request;
      this.asked.push({ path, headers, body: JSON.parse(text) });
      await answer(response);
    });
  }

  /** Starts a provider with this request handler. */
  static async start(
    answer: (response: ServerResponse) => Promise<void> | void,
  ): Promise<Provider> {
    const provider = new Provider(answer);
    provider.#server.listen(0, "127.0.0.1");
    await once(provider.#server, "listening");
    return provider;
  }

  /** Starts a provider that sends these events and ends the stream. */
  static streaming(...events: readonly unknown[]): Promise<Provider> {
    return Provider.start((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      for (const event of events) {
        response.write(`data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`);
      }
      response.end();
    });
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }
}

/** Returns an event with a piece of an answer. */
export function piece(content: string, finish_reason: string | null = null): unknown {
  return { choices: [{ delta: { content }, finish_reason }] };
}
