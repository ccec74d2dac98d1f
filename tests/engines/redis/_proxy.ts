import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

/** What a proxy does with a piece of a conversation: passes it on, or cuts the connection instead. */
export type Judge = (data: string) => "pass" | "cut";

const PASS: Judge = () => "pass";

/** Stands before a server and cuts connections where a test wants it. */
export class CuttingProxy implements AsyncDisposable {
  /** Asked for all that a client sends. */
  onCommand: Judge = PASS;
  /** Asked for all that the server answers. */
  onReply: Judge = PASS;
  /** Where new connections lead to, on this machine. */
  serverPort: number;
  /** Connections that were cut. */
  cuts = 0;
  readonly port: number;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server, port: number, serverPort: number) {
    this.#server = server;
    this.port = port;
    this.serverPort = serverPort;
  }

  /** Starts one before the server at a port of this machine. */
  static async before(serverPort: number): Promise<CuttingProxy> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { readonly port: number };
    const proxy = new CuttingProxy(server, port, serverPort);
    server.on("connection", (client: Socket) => proxy.#join(client));
    return proxy;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** Cuts all connections. */
  cutAll(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.cutAll();
    await closed;
  }

  #join(client: Socket): void {
    const server = connect(this.serverPort, "127.0.0.1");
    const end = () => {
      for (const socket of [client, server]) {
        this.#sockets.delete(socket);
        socket.destroy();
      }
    };
    const pass = (from: Socket, to: Socket, judge: () => Judge) => {
      this.#sockets.add(from);
      from.setNoDelay(true);
      from.on("error", end);
      from.on("close", end);
      from.on("data", (data: Uint8Array) => {
        if (from.destroyed) return;
        if (judge()(new TextDecoder("latin1").decode(data)) === "pass") return void to.write(data);
        this.cuts++;
        end();
      });
    };
    pass(client, server, () => this.onCommand);
    pass(server, client, () => this.onReply);
  }
}
