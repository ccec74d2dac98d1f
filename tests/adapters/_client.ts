import { once } from "node:events";
import { connect, type Socket } from "node:net";

/** A TCP connection that keeps everything it receives. */
export class Client implements AsyncDisposable {
  readonly #socket: Socket;
  readonly #closed: Promise<unknown>;
  text = "";

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setEncoding("latin1").on("data", (text) => this.text += text);
    socket.on("error", () => {}); // being cut off is an end as well
    this.#closed = new Promise((resolve) => socket.once("close", resolve));
  }

  static async to(port: number, first = ""): Promise<Client> {
    const socket = connect(port, "127.0.0.1");
    const client = new Client(socket);
    await once(socket, "connect");
    if (first !== "") await new Promise<void>((resolve) => socket.write(first, () => resolve()));
    return client;
  }

  /** Waits until this has come. */
  async until(part: string): Promise<void> {
    while (!this.text.includes(part)) await once(this.#socket, "data");
  }

  /** Waits until the server has closed the connection; gives all that came. */
  async ended(): Promise<string> {
    await this.#closed;
    return this.text;
  }

  /** Sends more. */
  send(text: string): void {
    this.#socket.write(text);
  }

  /** Reads no more until it is told to. */
  stall(): () => void {
    this.#socket.pause();
    return () => void this.#socket.resume();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.destroy();
    await this.#closed;
  }
}

/** A request as it is written on the wire. */
export function get(path: string): string {
  return `GET ${path} HTTP/1.1\r\nHost: here\r\n\r\n`;
}
