import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

/**
 * What to do with a piece of data: pass it on, cut the connection, pass half of it and cut the connection, or
 * hold it. A held command is kept with the connection to the server, and the connection to the client is cut;
 * `deliverHeld` sends it later.
 */
export type Action = "pass" | "cut" | "half" | "hold";

/** Decides about one piece of data. `connection` numbers the connections from 1. */
export type Rule = (text: string, connection: number) => Action;

const PASS: Rule = () => "pass";

/** A TCP proxy in front of a server, which breaks connections where a test wants it. */
export class BreakingProxy implements AsyncDisposable {
  /** Called with all that clients send. */
  onCommand: Rule = PASS;
  /** Called with all that the server answers. */
  onReply: Rule = PASS;
  /** The port of the server for new connections, on this machine. */
  serverPort: number;
  /** How many connections a rule has cut. */
  cuts = 0;
  readonly port: number;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #connections = 0;
  #held: { readonly server: Socket; readonly command: Uint8Array } | undefined;

  private constructor(server: Server, port: number, serverPort: number) {
    this.#server = server;
    this.port = port;
    this.serverPort = serverPort;
  }

  /** Starts a proxy in front of the server at a port of this machine. */
  static async before(serverPort: number): Promise<BreakingProxy> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { readonly port: number };
    const proxy = new BreakingProxy(server, port, serverPort);
    server.on("connection", (client: Socket) => proxy.#join(client));
    return proxy;
  }

  /** Cuts all connections. */
  cutAll(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Holds the next command of any client. */
  holdNext(): void {
    this.onCommand = () => {
      this.onCommand = PASS;
      return "hold";
    };
  }

  /** Sends the held command to the server, and resolves when the server has answered. */
  async deliverHeld(): Promise<void> {
    const { server, command } = this.#held!;
    const answered = once(server, "data");
    server.write(command);
    await answered;
    server.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.cutAll();
    await closed;
  }

  #join(client: Socket): void {
    const server = connect(this.serverPort, "127.0.0.1");
    const connection = ++this.#connections;
    const end = () => {
      for (const socket of [client, server]) {
        if (this.#held?.server === socket) continue;
        this.#sockets.delete(socket);
        socket.destroy();
      }
    };
    const pass = (from: Socket, to: Socket, rule: () => Rule) => {
      this.#sockets.add(from);
      from.setNoDelay(true);
      from.on("error", end);
      from.on("close", () => {
        this.#sockets.delete(from);
        end();
      });
      from.on("data", (data: Uint8Array) => {
        if (from.destroyed || to.destroyed) return;
        const action = rule()(new TextDecoder("latin1").decode(data), connection);
        if (action === "pass") return void to.write(data);
        if (action === "hold") this.#held = { server: to, command: data };
        else this.cuts++;
        if (action !== "half") return end();
        from.pause();
        to.write(data.subarray(0, data.length >> 1), end);
      });
    };
    pass(client, server, () => this.onCommand);
    pass(server, client, () => this.onReply);
  }
}
