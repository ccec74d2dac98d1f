import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { root, runtimeBinary } from "../../../tools/runtimes.ts";
import { converses, freePort } from "../_servers.ts";

const FIXTURE = fileURLToPath(new URL("fixtures/server.ts", import.meta.url));
const PATIENCE_MS = 45_000;
const alive = new Set<ChildProcess>();
process.on("exit", () => alive.forEach((child) => child.kill("SIGKILL")));

/** Why no server can be started; false when one can. */
export const noServer: string | false = existsSync(join(root, "node_modules/fauxqs/dist"))
  ? false
  : "no SQS: SQS_ENDPOINT is not set, and fauxqs is not installed";

/** A server that a test can stop, freeze and kill. */
export class SqsServer implements AsyncDisposable {
  readonly port: number;
  readonly #folder: string | undefined;
  #process: ChildProcess | undefined;

  private constructor(port: number, folder: string | undefined) {
    this.port = port;
    this.#folder = folder;
  }

  /** Starts a server. A durable one keeps its data after a {@linkcode kill}. */
  static async start(options: { readonly durable?: boolean } = {}): Promise<SqsServer> {
    const folder = options.durable ? mkdtempSync(join(tmpdir(), "lastcall-sqs-")) : undefined;
    const server = new SqsServer(await freePort(), folder);
    try {
      await server.start();
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
    return server;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async start(): Promise<void> {
    const args = [FIXTURE, `${this.port}`, ...(this.#folder === undefined ? [] : [this.#folder])];
    const child = spawn(runtimeBinary("node"), args, { stdio: ["ignore", "ignore", "inherit"] });
    this.#process = child;
    child.unref();
    alive.add(child);
    child.once("exit", () => alive.delete(child));
    for (const endsAt = Date.now() + PATIENCE_MS; !await converses(this.port);) {
      if (Date.now() < endsAt && child.exitCode === null) continue;
      throw new Error("The SQS server did not start");
    }
  }

  async kill(): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.ref(); // otherwise the process could end before
    child.kill("SIGKILL");
    await ended;
  }

  /** Stops the process. Its connections stay open. */
  freeze(): void {
    process.kill(this.#process!.pid!, "SIGSTOP");
  }

  thaw(): void {
    process.kill(this.#process!.pid!, "SIGCONT");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    if (this.#folder !== undefined) {
      rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5 });
    }
  }
}
