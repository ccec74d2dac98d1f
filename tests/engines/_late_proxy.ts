import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

/** Stands in front of a server, and can bring it a command after the connection that it came on broke. */
export class LateProxy implements AsyncDisposable {
  readonly port: number;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #holding = false;
  #held: { readonly server: Socket; readonly command: Uint8Array } | undefined;

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.port = port;
  }

  /** Starts one in front of the server at a port of this machine. */
  static async before(serverPort: number): Promise<LateProxy> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { readonly port: number };
    const proxy = new LateProxy(server, port);
    server.on("connection", (client: Socket) => proxy.#join(client, serverPort));
    return proxy;
  }

  /** Keeps the next command, and breaks the connection with the client that sent it. */
  holdNext(): void {
    this.#holding = true;
  }

  /** Brings the server what was kept; resolves when it has answered. */
  async deliver(): Promise<void> {
    const { server, command } = this.#held!;
    const answered = once(server, "data");
    server.write(command);
    await answered;
    server.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #join(client: Socket, serverPort: number): void {
    const server = connect(serverPort, "127.0.0.1");
    const isKept = () => this.#held?.server === server;
    for (const [from, to] of [[client, server], [server, client]] as const) {
      this.#sockets.add(from);
      from.setNoDelay(true);
      from.on("error", () => {});
      from.on("close", () => {
        this.#sockets.delete(from);
        if (!isKept()) to.destroy();
      });
    }
    server.on("data", (data: Uint8Array) => client.destroyed || client.write(data));
    client.on("data", (command: Uint8Array) => {
      if (!this.#holding) return void server.write(command);
      this.#holding = false;
      this.#held = { server, command };
      client.destroy();
    });
  }
}
