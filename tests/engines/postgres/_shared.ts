// The PostgreSQL that tests share. Each file has a schema of its own there, dropped at its end.

import { randomUUID } from "node:crypto";
import { after } from "node:test";
import process from "node:process";
import postgres from "postgres";
import { findServer, missing, type ServerKind } from "../_servers.ts";
import { binFolder, PrivatePostgres } from "./_private.ts";

/** For what is shared; private servers are started by {@linkcode PrivatePostgres}. */
const kind: ServerKind = {
  name: "PostgreSQL",
  variable: "POSTGRES_URL",
  defaultPort: 5432,
  binary: "postgres",
  url: (port) => `postgres://127.0.0.1:${port}/test`,
  args: () => [],
};

async function find(): Promise<string | undefined> {
  for (const user of ["", "postgres@"]) {
    const server = await findServer({ ...kind, binary: "no private one", url: urlAs(user) });
    if (server !== undefined && await accepts(server.url)) return server.url;
  }
  if (binFolder === undefined || process.platform === "win32") return undefined;
  return (await PrivatePostgres.start()).url; // which ends with the process
}

function urlAs(user: string): (port: number) => string {
  return (port) => `postgres://${user}127.0.0.1:${port}/test`;
}

async function accepts(url: string): Promise<boolean> {
  const sql = postgres(url, { max: 1, connect_timeout: 5 });
  try {
    await sql`select 1`;
    return true;
  } catch {
    return false;
  } finally {
    await sql.end({ timeout: 1 });
  }
}

/** Undefined when there is no server. */
export const url: string | undefined = await find();

/** For `describe` and `it`: names why tests are skipped. */
export const options: { readonly skip: string | false } = {
  skip: url === undefined ? missing(kind) : false,
};

/** Returns the name of a new schema; it is dropped after the tests of the file. */
export function ownSchema(): string {
  const schema = `lastcall_${randomUUID().replaceAll("-", "")}`;
  after(async () => {
    if (url === undefined) return;
    const sql = postgres(url, { max: 1, onnotice() {} });
    await sql.unsafe(`drop schema if exists "${schema}" cascade`);
    await sql.end();
  });
  return schema;
}

/** A client of a test's own, which sees what mailboxes do. */
export function observer(
  target: string = url!,
  settings: Readonly<Record<string, string>> = {},
): postgres.Sql {
  return postgres(target, {
    max: 2,
    onnotice() {},
    connection: { application_name: "lastcall_observer", ...settings },
  });
}
