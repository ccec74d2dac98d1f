import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";

/** How a connection breaks: the worker closes it or resets it. */
export type Cut = "close" | "reset";

/**
 * A worker that executes each complete request, and then cuts the connection instead of answering.
 * It answers requests for `/warm`, so that connections can be kept alive before.
 */
export class CuttingWorker implements AsyncDisposable {
  /** The methods of the requests that it executed. */
  readonly executed: string[] = [];
  cut: Cut = "close";
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor() {
    this.#server = createServer((socket) => {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket)).on("error", () => {});
      let text = "";
      socket.setEncoding("latin1").on("data", (part) => {
        text += part;
        for (let end = endOf(text); end > 0; end = endOf(text)) {
          this.#execute(socket, text.slice(0, end));
          text = text.slice(end);
        }
      });
    });
  }

  static async start(): Promise<CuttingWorker> {
    const worker = new CuttingWorker();
    worker.#server.listen(0, "127.0.0.1");
    await once(worker.#server, "listening");
    return worker;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #execute(socket: Socket, request: string): void {
    const [method, path] = request.split(" ", 2) as [string, string];
    if (path === "/warm") {
      socket.write("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nwarm");
      return;
    }
    this.executed.push(method);
    if (this.cut === "reset") socket.resetAndDestroy();
    else socket.destroy();
  }
}

/** Returns the end of the first request; 0 when it is incomplete. */
function endOf(text: string): number {
  const head = text.indexOf("\r\n\r\n") + 4;
  if (head < 4) return 0;
  const headers = text.slice(0, head).toLowerCase();
  if (headers.includes("transfer-encoding: chunked")) {
    const last = text.indexOf("0\r\n\r\n", head);
    return last < 0 ? 0 : last + 5;
  }
  const end = head + Number(/content-length: (\d+)/.exec(headers)?.[1] ?? 0);
  return text.length < end ? 0 : end;
}
