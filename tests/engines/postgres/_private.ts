// A PostgreSQL of a test's own, which it may freeze, stop and kill.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, existsSync, globSync, mkdtempSync, readdirSync } from "node:fs";
import { openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { delimiter, join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import postgres from "postgres";
import { freePort, leash } from "../_servers.ts";

const START_MS = 30_000;
const TEST_SETTINGS = ["fsync=off", "shared_buffers=16MB", "max_connections=200"];

/** Where `initdb` and `postgres` are: on the PATH, or where distributions hide them. */
export const binFolder: string | undefined = [
  ...(process.env["PATH"] ?? "").split(delimiter),
  ...globSync("/usr/lib/postgresql/*/bin").sort().reverse(),
].find((folder) => existsSync(join(folder, "initdb")));

/** A user of the operating system. */
export interface Ids {
  readonly uid: number;
  readonly gid: number;
}

/** The server refuses to run as root, so another user has to. */
export const user: Ids | undefined = userInfo().uid === 0
  ? idsOf("postgres") ?? idsOf("nobody")
  : undefined;
const isRoot = userInfo().uid === 0;

/** Why faults cannot be tried here, or false. */
export const privateOptions: { readonly skip: string | false } = {
  skip: binFolder === undefined
    ? "no initdb on the PATH or in /usr/lib/postgresql for a private PostgreSQL"
    : isRoot && user === undefined
    ? "a private PostgreSQL does not run as root, and there is no other user"
    : false,
};

/** A server with a data folder of its own, on a free port. */
export class PrivatePostgres implements AsyncDisposable {
  readonly port: number;
  readonly #folder: string;
  readonly #settings: readonly string[];
  #process: ChildProcess | undefined;
  #frozen: number[] = [];

  private constructor(port: number, folder: string, settings: readonly string[]) {
    this.port = port;
    this.#folder = folder;
    this.#settings = settings;
  }

  /** Starts one; the default settings are for tests, which need no durability. */
  static async start(settings: readonly string[] = TEST_SETTINGS): Promise<PrivatePostgres> {
    const folder = mkdtempSync(join(tmpdir(), "lastcall-postgres-"));
    if (user !== undefined) chownSync(folder, user.uid, user.gid);
    chmodSync(folder, 0o700);
    const data = join(folder, "data");
    const [program, args] = command("initdb", [
      ...["-D", data, "-A", "trust", "-U", "postgres", "-N", "-E", "UTF8", "--locale=C"],
    ]);
    execFileSync(program, args, { cwd: folder, stdio: "ignore" });
    const server = new PrivatePostgres(await freePort(), folder, settings);
    await server.start();
    return server;
  }

  get url(): string {
    return `postgres://postgres@127.0.0.1:${this.port}/postgres`;
  }

  /** Starts it again after {@linkcode stop}, with the data it had. */
  async start(): Promise<void> {
    const log = openSync(join(this.#folder, "server.log"), "a");
    const [program, args] = command("postgres", [
      ...["-D", join(this.#folder, "data"), "-p", `${this.port}`, "-h", "127.0.0.1"],
      ...["-k", this.#folder, ...this.#settings.flatMap((it) => ["-c", it])],
    ]);
    const child = spawn(program, args, { cwd: this.#folder, stdio: ["ignore", log, log] });
    child.unref();
    this.#process = child;
    leash(child, "QUIT", this.#folder);
    for (const endsAt = Date.now() + START_MS; !await this.#answers();) {
      if (Date.now() < endsAt && child.exitCode === null) continue;
      throw new Error(`No start: ${readFileSync(join(this.#folder, "server.log"), "utf8")}`);
    }
  }

  /** Ends it at once; `SIGINT` tells the clients, `SIGQUIT` is a crash. */
  async stop(signal: "SIGINT" | "SIGQUIT" = "SIGINT"): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child === undefined || child.exitCode !== null) return;
    const ended = once(child, "exit");
    child.ref(); // or nothing would hold the process until then
    process.kill(child.pid!, signal); // in Deno `child.kill` counts as its end
    await ended;
  }

  /** All of its processes keep their connections and do nothing. */
  freeze(): void {
    const parent = this.#process!.pid!;
    process.kill(parent, "SIGSTOP"); // first, so that no more of them come
    this.#frozen = [parent, ...childrenOf(parent)];
    for (const pid of this.#frozen) signalled(pid, "SIGSTOP");
  }

  thaw(): void {
    for (const pid of this.#frozen.splice(0)) signalled(pid, "SIGCONT");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.thaw();
    await this.stop("SIGQUIT");
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }

  async #answers(): Promise<boolean> {
    const sql = postgres(this.url, { max: 1, connect_timeout: 5 });
    try {
      await sql`select 1`;
      return true;
    } catch {
      await sleep(50);
      return false;
    } finally {
      await sql.end({ timeout: 1 });
    }
  }
}

/** A connection's process may end of itself at any moment. */
function signalled(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as { readonly code?: string }).code !== "ESRCH") throw error;
  }
}

function childrenOf(parent: number): number[] {
  const pids = readdirSync("/proc").map(Number).filter((pid) => pid > 0);
  return pids.filter((pid) => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]) === parent;
    } catch {
      return false; // it has ended meanwhile
    }
  });
}

/** What to start; `setpriv` becomes the program, so that its process is the one to signal. */
function command(name: string, args: readonly string[]): [string, string[]] {
  const program = join(binFolder!, name);
  if (user === undefined) return [program, [...args]];
  const flags = [`--reuid=${user.uid}`, `--regid=${user.gid}`, "--clear-groups"];
  return ["setpriv", [...flags, program, ...args]];
}

/** Undefined where there is no such user, or no way to become it. */
function idsOf(user: string): Ids | undefined {
  try {
    execFileSync("setpriv", ["--version"], { stdio: "ignore" });
    const id = (flag: string) => Number(execFileSync("id", [flag, user], { encoding: "utf8" }));
    return { uid: id("-u"), gid: id("-g") };
  } catch {
    return undefined;
  }
}
