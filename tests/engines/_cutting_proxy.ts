import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

/**
 * Decides about a piece of a conversation: pass it on, or cut the connection instead. `connection` numbers
 * the connections, so that a judge can tell which reply belongs to which command.
 */
export type Judge = (text: string, connection: number) => "pass" | "cut";

const PASS: Judge = () => "pass";

/** Stands in front of a server and cuts connections where a test wants it. */
export class CuttingProxy implements AsyncDisposable {
  /** Asked for all that clients send. */
  onCommand: Judge = PASS;
  /** Asked for all that the server answers. */
  onReply: Judge = PASS;
  /** Connections that a judge has cut. */
  cuts = 0;
  readonly port: number;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #connections = 0;

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.port = port;
  }

  /** Starts one in front of the server at a port of this machine. */
  static async before(serverPort: number): Promise<CuttingProxy> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { readonly port: number };
    const proxy = new CuttingProxy(server, port);
    server.on("connection", (client: Socket) => proxy.#join(client, serverPort));
    return proxy;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #join(client: Socket, serverPort: number): void {
    const server = connect(serverPort, "127.0.0.1");
    const connection = ++this.#connections;
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
        if (from.destroyed || to.destroyed) return;
        const text = new TextDecoder("latin1").decode(data);
        if (judge()(text, connection) === "pass") return void to.write(data);
        this.cuts++;
        end();
      });
    };
    pass(client, server, () => this.onCommand);
    pass(server, client, () => this.onReply);
  }
}
