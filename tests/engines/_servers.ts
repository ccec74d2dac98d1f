// Servers for the tests of engines: the one that the environment names, the one at its usual place on
// this machine, or a private one that ends with the tests.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import process from "node:process";

/** What there is to know of a kind of server. */
export interface ServerKind {
  readonly name: string;
  /** The environment variable that names a server to use. */
  readonly variable: string;
  readonly defaultPort: number;
  /** The program that a private server is started from. */
  readonly binary: string;
  url(port: number): string;
  /** The arguments of a private server; all it writes goes to `folder`. */
  args(port: number, folder: string): readonly string[];
  /** Makes what the server expects in its folder before its first start. */
  prepare?(folder: string): Promise<void>;
  /** True when the server at this port is ready. @default a connection is accepted */
  answers?(port: number): Promise<boolean>;
}

/** How long a server may take to start, or to end. */
const PATIENCE_MS = 45_000;

/** A server of our own, which a test may stop, freeze and kill. */
export class PrivateServer implements AsyncDisposable {
  readonly port: number;
  readonly folder: string;
  readonly #kind: ServerKind;
  #process: ChildProcess | undefined;

  private constructor(kind: ServerKind, port: number, folder: string) {
    this.#kind = kind;
    this.port = port;
    this.folder = folder;
  }

  /** Starts one on a free port with a data folder of its own. */
  static async start(kind: ServerKind): Promise<PrivateServer> {
    const folder = mkdtempSync(join(tmpdir(), `lastcall-${kind.binary}-`));
    const server = new PrivateServer(kind, await freePort(), folder);
    try {
      await kind.prepare?.(folder);
      await server.start();
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
    return server;
  }

  get url(): string {
    return this.#kind.url(this.port);
  }

  /** Starts it again after a {@linkcode kill}, with the data it had. */
  async start(): Promise<void> {
    const log = openSync(join(this.folder, "server.log"), "a");
    const child = spawn(this.#kind.binary, this.#kind.args(this.port, this.folder), {
      stdio: ["ignore", log, log],
      cwd: this.folder,
    });
    this.#process = child;
    let failure: unknown;
    child.once("error", (error) => failure = error);
    child.unref();
    leash(child, "KILL", this.folder);
    for (const endsAt = Date.now() + PATIENCE_MS; !await answers(this.#kind, this.port);) {
      if (Date.now() < endsAt && child.exitCode === null && failure === undefined) continue;
      const output = readFileSync(join(this.folder, "server.log"), "utf8");
      throw new Error(`The private ${this.#kind.name} did not start: ${failure ?? output}`);
    }
  }

  /** Ends it as a crash would. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.ref(); // or nothing might keep the process alive until then
    child.kill(signal);
    if (signal !== "SIGKILL") child.kill("SIGCONT");
    await ended;
  }

  /** It keeps its connections and does nothing. */
  freeze(): void {
    process.kill(this.#process!.pid!, "SIGSTOP");
  }

  thaw(): void {
    process.kill(this.#process!.pid!, "SIGCONT");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Waits for the end of its input, which is that of the tests; then ends the server and its folder. */
const LEASH = 'cat; kill -CONT "$1"; kill -"$2" "$1"; sleep 1; rm -rf "$3"';

/** Ends a server, with its folder, when this process has ended in whatever way. */
export function leash(server: ChildProcess, signal: "KILL" | "QUIT", folder: string): void {
  const holder = spawn("sh", ["-c", LEASH, "leash", `${server.pid}`, signal, folder], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  holder.on("error", () => {}); // no sh, no leash: whoever uses the server ends it as well
  holder.unref();
  (holder.stdin as { unref?(): void } | null)?.unref?.();
  server.once("exit", () => holder.kill("SIGKILL"));
}

/**
 * A server that tests may share: they clean up after themselves and never disturb it. One that had to be
 * started ends with the process, since all test files of one process share it.
 */
export interface SharedServer {
  readonly url: string;
}

/** Finds a server, or starts one. `undefined` when there is none; see {@linkcode missing}. */
export async function findServer(kind: ServerKind): Promise<SharedServer | undefined> {
  const named = process.env[kind.variable];
  if (named) return { url: named };
  if (await answers(kind, kind.defaultPort)) return { url: kind.url(kind.defaultPort) };
  return hasBinary(kind) ? await PrivateServer.start(kind) : undefined;
}

/** True when private servers of this kind can be started. */
export function hasBinary({ binary }: ServerKind): boolean {
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  return folders.some((folder) => folder !== "" && existsSync(join(folder, binary)));
}

/** Why tests are skipped. */
export function missing({ name, variable, defaultPort, binary }: ServerKind): string {
  return `no ${name}: ${variable} is not set, nothing answers at port ${defaultPort}, and there is ` +
    `no ${binary} on the PATH`;
}

/** A port that nobody uses. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { readonly port: number };
  server.close();
  await once(server, "close");
  return port;
}

/** True when a server at this port answers `request`, or a mere connection, with what `expected` fits. */
export function converses(port: number, request?: string, expected?: RegExp): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    const end = (result: boolean) => {
      socket.destroy();
      clearTimeout(limit);
      // A refusal comes at once: whoever asks again does not ask in a frenzy.
      if (result) resolve(true);
      else setTimeout(() => resolve(false), 20);
    };
    const limit = setTimeout(() => end(false), 1_000);
    socket.on("error", () => end(false));
    socket.on("close", () => end(false));
    socket.on("connect", () => {
      if (request !== undefined) socket.write(request);
      if (expected === undefined) end(true);
    });
    if (expected !== undefined) {
      socket.on("data", (data) => end(expected.test(data.toString("latin1"))));
    }
  });
}

async function answers(kind: ServerKind, port: number): Promise<boolean> {
  return await (kind.answers?.(port) ?? converses(port));
}

/** Tries until it succeeds: the first success after an outage. Gives up in the end. */
export async function eventually<T>(act: () => Promise<T>): Promise<T> {
  for (const endsAt = Date.now() + 45_000;;) {
    try {
      return await act();
    } catch (error) {
      if (Date.now() > endsAt) throw error;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}

/** Redis, with a log of changes so that a killed one comes back with its data. */
export const redis: ServerKind = {
  name: "Redis",
  variable: "REDIS_URL",
  defaultPort: 6379,
  binary: "redis-server",
  url: (port) => `redis://127.0.0.1:${port}`,
  args: (port, folder) => [
    ...["--port", `${port}`, "--bind", "127.0.0.1", "--dir", folder, "--daemonize", "no"],
    ...["--save", "", "--appendonly", "yes", "--appendfsync", "always"],
  ],
  answers: (port) => converses(port, "PING\r\n", /^\+PONG/),
};

/** NATS with JetStream, which keeps its streams in the folder. */
export const nats: ServerKind = {
  name: "NATS",
  variable: "NATS_URL",
  defaultPort: 4222,
  binary: "nats-server",
  url: (port) => `nats://127.0.0.1:${port}`,
  args: (port, folder) => [
    ...["--addr", "127.0.0.1", "--port", `${port}`],
    ...["--jetstream", "--store_dir", folder],
  ],
  answers: (port) => converses(port, undefined, /^INFO \{.*"jetstream":true/),
};
