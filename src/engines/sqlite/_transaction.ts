import { show } from "../../_checks.ts";
import type { Maybe } from "../../mailbox/engine.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";
import { type Change, perform, type Step } from "./_changes.ts";
import type { SqliteStatement } from "./drivers.ts";
import { connectionError, type OpenFile } from "./_file.ts";
import { type StatementName, statementTexts } from "./_statements.ts";

/** A transaction that the caller began on the same file, over a connection of its own. */
export interface CallerTransaction {
  /** True when `perform` returns no promise. */
  readonly synchronous: boolean;
  /** Performs a change in the transaction. The caller commits it or rolls it back. */
  perform<T>(change: Change<T>): Maybe<T>;
}

/** A database of `node:sqlite`, `bun:sqlite` or `better-sqlite3`, in the hands of the caller. */
interface Handle {
  exec(sql: string): unknown;
  prepare(sql: string): SqliteStatement;
  /** `bun:sqlite`: like `prepare`, and closing the database finalizes the statement. */
  readonly query?: (sql: string) => SqliteStatement;
  /** `node:sqlite`, except in early versions. */
  readonly isTransaction?: boolean;
  /** `bun:sqlite` and `better-sqlite3`. */
  readonly inTransaction?: boolean;
}

/** A `Transaction` of Kysely. */
interface KyselyTransaction {
  readonly isTransaction: boolean;
  executeQuery(query: unknown): Promise<{
    readonly rows: readonly unknown[];
    readonly numAffectedRows?: bigint | undefined;
  }>;
}

type PreparedStatements = Partial<Record<StatementName, SqliteStatement>>;

const DATABASE_LIST = "PRAGMA database_list";

/** The prepared statements on handles that were found to have the same file open. */
const handles = new WeakMap<OpenFile, WeakMap<Handle, PreparedStatements>>();

/** For each transaction of Kysely, the check of its file, and its last change. */
const queues = new WeakMap<KyselyTransaction, { checked: Promise<void>; last: Promise<unknown> }>();

/**
 * Returns the transaction behind an object of the caller: a database, or a transaction of Drizzle or Kysely.
 *
 * @throws {InvalidParameterError} when it is none of them, or has another file open.
 */
export function callerTransaction(transaction: unknown, file: OpenFile): CallerTransaction {
  const handle = handleOf(transaction);
  if (handle !== undefined) return onHandle(handle, file);
  if (isKysely(transaction)) return onKysely(transaction, file);
  throw new InvalidParameterError(
    `Cannot use ${
      show(transaction)
    } as a transaction: pass a database of node:sqlite, bun:sqlite or ` +
      "better-sqlite3, or a transaction of Drizzle or Kysely on one of them",
  );
}

function handleOf(transaction: unknown): Handle | undefined {
  if (typeof transaction !== "object" || transaction === null) return undefined;
  const { $client, session } = transaction as {
    readonly $client?: unknown;
    readonly session?: { readonly client?: unknown };
  };
  // A transaction of Drizzle keeps the database in its session.
  return [transaction, $client, session?.client].find(isHandle);
}

function isHandle(it: unknown): it is Handle {
  const { prepare, exec } = (it ?? {}) as Partial<Handle>;
  return typeof prepare === "function" && typeof exec === "function";
}

function isKysely(it: unknown): it is KyselyTransaction {
  return typeof it === "object" && it !== null && "executeQuery" in it &&
    typeof it.executeQuery === "function";
}

function onHandle(handle: Handle, file: OpenFile): CallerTransaction {
  const prepared = preparedOn(handle, file);
  const texts = statementTexts(file.prefix);
  const prepare = (sql: string) => handle.query?.(sql) ?? handle.prepare(sql);
  return {
    synchronous: true,
    perform(change) {
      if (!isInTransaction(handle)) throw notBegun();
      try {
        return perform(change, (name) => prepared[name] ??= prepare(texts[name]));
      } catch (error) {
        throw connectionError(file.realPath, error);
      }
    },
  };
}

/** Returns the statements on a handle, after a check that it has the same file open. */
function preparedOn(handle: Handle, file: OpenFile): PreparedStatements {
  const known = handles.get(file) ?? new WeakMap<Handle, PreparedStatements>();
  handles.set(file, known);
  let prepared = known.get(handle);
  if (prepared === undefined) {
    checkSameFile(handle.prepare(DATABASE_LIST).all(), file);
    known.set(handle, prepared = {});
  }
  return prepared;
}

/** Statements of a transaction must not be committed one by one. */
function isInTransaction(handle: Handle): boolean {
  const known = handle.isTransaction ?? handle.inTransaction;
  if (known !== undefined) return known;
  try {
    handle.exec("BEGIN");
  } catch {
    return true; // SQLite refuses a transaction within a transaction
  }
  handle.exec("ROLLBACK");
  return false;
}

function onKysely(transaction: KyselyTransaction, file: OpenFile): CallerTransaction {
  const execute = (sql: string, parameters: Step["values"] = []) =>
    transaction.executeQuery({
      sql,
      parameters,
      query: { kind: "RawNode", sqlFragments: [sql], parameters: [] },
      queryId: { queryId: "lastcall" },
    });
  if (!transaction.isTransaction) throw notBegun();
  return {
    synchronous: false,
    perform<T>(change: Change<T>): Promise<T> {
      const queue = queues.get(transaction) ?? {
        checked: execute(DATABASE_LIST).then(({ rows }) => checkSameFile(rows, file)),
        last: Promise.resolve(),
      };
      queues.set(transaction, queue);
      // One after another: the steps of two changes must not alternate.
      const performing = queue.last.catch(() => {})
        .then(() => queue.checked)
        .then(() => performOn(execute, change, file));
      queue.last = performing;
      return performing;
    },
  };
}

async function performOn<T>(
  execute: (sql: string, values: Step["values"]) => ReturnType<KyselyTransaction["executeQuery"]>,
  change: Change<T>,
  file: OpenFile,
): Promise<T> {
  const texts = statementTexts(file.prefix);
  try {
    let step = change.next();
    while (!step.done) {
      const { name, values, isQuery } = step.value;
      const { rows, numAffectedRows } = await execute(texts[name], values);
      step = change.next(isQuery ? rows[0] : Number(numAffectedRows));
    }
    return step.value;
  } catch (error) {
    throw connectionError(file.realPath, error);
  }
}

function checkSameFile(rows: readonly unknown[], { identity, realPath }: OpenFile): void {
  // Drivers can be set to return rows as arrays: the columns are seq, name and file.
  const databases = rows.map((row) => Object.values(row as object));
  const [, , path] = databases.find(([, name]) => name === "main") ?? [];
  if (typeof path === "string" && identity.isAt(path)) return;
  throw new InvalidParameterError(
    `Cannot use this transaction: its database is ${
      show(path || "in memory")
    }, and the mailbox is in ` +
      `"${realPath}". Open the mailbox in the file of your tables with \`sharedFile: true\``,
  );
}

function notBegun(): InvalidParameterError {
  return new InvalidParameterError(
    "Cannot use this database as a transaction: it has none. Begin one with BEGIN IMMEDIATE",
  );
}
