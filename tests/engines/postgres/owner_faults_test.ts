import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { delimiter, join } from "node:path";
import process from "node:process";
import { after, before, describe, it } from "node:test";
import { assert, assertEquals, assertMatch } from "@std/assert";
import postgres from "postgres";
import { PostgresMailbox, type SqlClient } from "../../../src/engines/postgres/mod.ts";
import { silentLog } from "../../../src/log.ts";
import { converses, eventually, freePort } from "../_servers.ts";
import { privateOptions, PrivatePostgres, user } from "./_private.ts";
import { observer } from "./_shared.ts";
import { holder, Watcher } from "./_watchers.ts";

/** So many looks take longer than the grace. */
const LOOKS = 5;
const schema = "lastcall";

/** Opens a queue, and collects its warnings. */
async function opened(target: string | SqlClient, name: string, migrate = true) {
  const warnings: unknown[][] = [];
  const log = { ...silentLog, warn: (...args: unknown[]) => void warnings.push(args) };
  const mailbox = await PostgresMailbox.open<string>(target, { name, log, migrate });
  return { mailbox, warnings, [Symbol.asyncDispose]: () => mailbox.close() };
}

describe("owners of leases on a server with faults", privateOptions, () => {
  let server: PrivatePostgres;
  before(async () => void (server = await PrivatePostgres.start()));
  after(() => server?.[Symbol.asyncDispose]());

  const query = async (statement: string) => {
    const sql = observer(server.url);
    try {
      return await sql.unsafe(statement);
    } finally {
      await sql.end();
    }
  };

  /** The pid of the owner of the message of a queue that is in flight. */
  const pidOf = async (queue: string): Promise<number> => {
    const [row] = await query(`select pid from ${schema}.owners where number = (
      select receipt >> 32 from ${schema}.messages where queue = '${queue}' and receipt is not null)`);
    return row!.pid;
  };

  for (const signal of ["SIGINT", "SIGQUIT"] as const) {
    it(`a process keeps its message when the server restarts after ${signal}`, async () => {
      const name = `restart-${signal}`.toLowerCase();
      await using watcher = await Watcher.open(server.url, schema, name);
      await watcher.mailbox.send("work");
      await using held = await holder(server.url, schema, name);
      const pid = await pidOf(name);
      await query("checkpoint"); // a lease does not wait for the disk
      await server.stop(signal);
      await server.start();
      await eventually(async () => assert(await pidOf(name) !== pid, "it registers again"));
      await eventually(() => watcher.mailbox.approximateCount());
      await watcher.receivesNothingIn(LOOKS);
      held.child.kill("SIGKILL");
      assertEquals((await watcher.receive())[0]?.leaseExpiries, 1);
    });
  }

  it("a process that is frozen while the server restarts keeps its message", async () => {
    await using watcher = await Watcher.open(server.url, schema, "both");
    await watcher.mailbox.send("work");
    await using held = await holder(server.url, schema, "both");
    held.child.kill("SIGSTOP");
    await query("checkpoint");
    await server.stop("SIGQUIT");
    await server.start();
    await eventually(() => watcher.mailbox.approximateCount());
    await watcher.receivesNothingIn(LOOKS);
    assertEquals((await watcher.mailbox.stats()).inFlight, 1);
    held.child.kill("SIGCONT");
  });

  it("users that cannot see each other's connections do not take each other for dead", async () => {
    await (await opened(server.url, "users")).mailbox.close();
    await query(`create role worker login; create role other login;
      grant usage on schema ${schema} to worker, other;
      grant all on all tables in schema ${schema} to worker, other`);
    const as = (role: string) => server.url.replace("postgres@", `${role}@`);
    await using watcher = await Watcher.open(as("other"), schema, "users");
    await watcher.mailbox.send("work");
    await using held = await holder(as("worker"), schema, "users");
    await watcher.receivesNothingIn(LOOKS);
    held.child.kill("SIGKILL");
    assertEquals((await watcher.receive())[0]?.body, "work");
  });

  it("a user without permission for the owners receives without detection", async () => {
    await (await opened(server.url, "users")).mailbox.close();
    await query(`create role lesser login; grant usage on schema ${schema} to lesser;
      grant all on all tables in schema ${schema} to lesser;
      revoke all on ${schema}.owners from lesser`);
    await using it = await opened(server.url.replace("postgres@", "lesser@"), "lesser", false);
    await it.mailbox.send("work");
    assertEquals((await it.mailbox.receive()).length, 1);
    assertEquals(it.mailbox.capabilities.ownerDetection, false);
    assertEquals(it.warnings.length, 1);
    assertMatch(JSON.stringify(it.warnings), /owner detection is off.*permission denied/);
  });

  it("a user without permission for the waits receives and is handed nothing", async () => {
    await (await opened(server.url, "users")).mailbox.close();
    await query(`create role waitless login; grant usage on schema ${schema} to waitless;
      grant all on all tables in schema ${schema} to waitless;
      revoke all on ${schema}.waiting from waitless`);
    await using it = await opened(server.url.replace("postgres@", "waitless@"), "waitless", false);
    for (const waitTimeMs of [100, 60_000]) {
      const received = it.mailbox.receive({ waitTimeMs });
      if (waitTimeMs > 100) await it.mailbox.send("work");
      assertEquals((await received).length, waitTimeMs > 100 ? 1 : 0);
    }
    assertEquals(it.warnings, []);
  });

  it("a user without permission for the waits finds workers that have died", async () => {
    await (await opened(server.url, "users")).mailbox.close();
    await query(`create role unwaiting login; grant usage on schema ${schema} to unwaiting;
      grant all on all tables in schema ${schema} to unwaiting;
      revoke all on ${schema}.waiting from unwaiting`);
    await using watcher = await Watcher.open(
      server.url.replace("postgres@", "unwaiting@"),
      schema,
      "unwaiting",
    );
    await watcher.mailbox.send("work");
    await using held = await holder(server.url, schema, "unwaiting");
    held.child.kill("SIGKILL");
    assertEquals((await watcher.receive())[0]?.leaseExpiries, 1);
  });

  const program = findBouncer();
  const bouncer = { skip: program === undefined ? "no pgbouncer on the PATH" : false } as const;
  for (const mode of ["transaction", "session"] as const) {
    it(`behind PgBouncer in ${mode} mode the detection is off`, bouncer, async () => {
      const name = `pooled-${mode}`;
      await (await opened(server.url, name)).mailbox.close();
      await using pool = await bounce(program!, server.port, mode);
      const client = postgres(pool.url, { prepare: false, fetch_types: false, max: 2 });
      await using _ = { [Symbol.asyncDispose]: () => client.end({ timeout: 1 }) };
      await using it = await opened(client, name, false);
      await it.mailbox.send("work");
      const [message] = await it.mailbox.receive();
      assertEquals(it.mailbox.capabilities.ownerDetection, false);
      assertMatch(JSON.stringify(it.warnings), /owner detection is off.*connection pooler/);
      await message!.acknowledge();
      assertEquals(await it.mailbox.receive(), []);
      assertEquals(it.warnings.length, 1);
      const owned =
        `select count(*)::int as count from ${schema}.messages where receipt >> 32 >= 2097152`;
      assertEquals((await query(`${owned} and queue = '${name}'`))[0]!.count, 0);
    });
  }
});

function findBouncer(): string | undefined {
  const folders = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/sbin"];
  return folders.map((it) => join(it, "pgbouncer")).find((it) => existsSync(it));
}

/** Starts a PgBouncer in front of the server. */
async function bounce(program: string, serverPort: number, mode: "transaction" | "session") {
  const folder = mkdtempSync(join(tmpdir(), "lastcall-pgbouncer-"));
  const port = await freePort();
  const config = join(folder, "pgbouncer.ini");
  writeFileSync(
    config,
    `[databases]
postgres = host=127.0.0.1 port=${serverPort} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = ${mode}
`,
  );
  chmodSync(folder, 0o755);
  const ids = userInfo().uid === 0 && user !== undefined ? { uid: user.uid, gid: user.gid } : {};
  if (user !== undefined) chownSync(folder, user.uid, user.gid);
  const child = spawn(program, [config], { stdio: "ignore", cwd: folder, ...ids });
  await eventually(async () => assert(await converses(port), "PgBouncer listens"));
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    async [Symbol.asyncDispose]() {
      const ended = once(child, "exit");
      process.kill(child.pid!, "SIGKILL");
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
