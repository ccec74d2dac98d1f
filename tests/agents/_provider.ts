import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** What a provider was asked. */
export interface Asked {
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  // deno-lint-ignore no-explicit-any -- whatever JSON was sent
  readonly body: any;
}

/** A server on this machine that stands for a provider. */
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

  /** Starts one that answers in this way. */
  static async start(
    answer: (response: ServerResponse) => Promise<void> | void,
  ): Promise<Provider> {
    const provider = new Provider(answer);
    provider.#server.listen(0, "127.0.0.1");
    await once(provider.#server, "listening");
    return provider;
  }

  /** Starts one that sends these events, and then ends. */
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

/** A piece of an answer. */
export function piece(content: string, finish_reason: string | null = null): unknown {
  return { choices: [{ delta: { content }, finish_reason }] };
}
