import { show } from "../../_checks.ts";
import type { Delivery, EngineTransaction, Entry } from "../../mailbox/engine.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";
import type { SqlParameter, SqlRow } from "./client.ts";
import { storedOf, storeParameters } from "./_sends.ts";
import { handlesOf, keysOf, type PostgresDelivery } from "./_settlements.ts";
import type { Statements } from "./_statements.ts";

/** Runs a statement in a transaction of the caller. */
type Run = (statement: string, parameters: SqlParameter[]) => PromiseLike<readonly SqlRow[]>;

/** The members by which the transactions of the clients differ. */
interface AnyClient {
  unsafe?(statement: string, parameters: SqlParameter[], options: object): PromiseLike<SqlRow[]>;
  query?(statement: string, parameters: SqlParameter[]): Promise<{ readonly rows: SqlRow[] }>;
  executeQuery?(query: object): Promise<{ readonly rows: SqlRow[] }>;
  readonly begin?: unknown;
  readonly savepoint?: unknown;
  readonly release?: unknown;
  readonly rollback?: unknown;
  readonly totalCount?: unknown;
  readonly isTransaction?: unknown;
  readonly session?: { readonly client?: unknown };
  getTransactionStatus?(): unknown;
}

/** The queue that a transaction sends to. */
export interface TransactionTarget {
  readonly queue: string;
  readonly maxSize: number;
  readonly statements: Statements;
  readonly channel: string;
  /** Called after a send. */
  onSend(entries: readonly Entry<string>[]): void;
}

/**
 * Returns the calls of an engine that run in a transaction of the caller.
 *
 * An error of the database is thrown as it is: it has aborted the transaction, and the caller's own handling
 * of errors, such as a retry after SQLSTATE 40001, has to see it. A full queue, a duplicate and a stale receipt
 * handle are no errors of the database and leave the transaction usable.
 */
export function postgresTransaction(
  transaction: unknown,
  target: TransactionTarget,
): EngineTransaction<string> {
  const run = runnerOf(transaction);
  const { queue, maxSize, statements, channel } = target;
  const acknowledge = async (deliveries: readonly PostgresDelivery[]) => {
    const isKeyed = keysOf(deliveries).length > 0;
    const rows = isKeyed
      ? await run(statements.acknowledgeInTransaction, [...handlesOf(deliveries), channel])
      : await run(statements.acknowledge, handlesOf(deliveries));
    const settled = new Set(rows.map(({ number }) => String(number)));
    return deliveries.map((delivery) => {
      const isSettled = settled.has(delivery.number);
      if (isSettled) delivery.inTransaction = true;
      return isSettled;
    });
  };
  return {
    async send(entries: readonly Entry<string>[]) {
      const parameters = storeParameters(queue, entries, maxSize);
      const rows = await run(statements.storeInTransaction, [...parameters, channel]);
      target.onSend(entries);
      return storedOf(queue, entries, maxSize, rows);
    },
    async acknowledge(deliveries: readonly Delivery<string>[]) {
      const own = deliveries as readonly PostgresDelivery[];
      if (new Set(own.map(({ number }) => number)).size === own.length) {
        return await acknowledge(own);
      }
      // The reply identifies messages, so two deliveries of one message need separate statements.
      const results: boolean[] = [];
      for (const delivery of own) results.push(...await acknowledge([delivery]));
      return results;
    },
  };
}

/** Returns how to run a statement in this transaction. */
function runnerOf(transaction: unknown): Run {
  const isObject = typeof transaction === "object" || typeof transaction === "function";
  const tx = (isObject ? transaction ?? {} : {}) as AnyClient;
  const { session, isTransaction } = tx;
  if (isFunction(tx.unsafe)) {
    // Inside `sql.begin`, or a reserved connection on which the caller has sent `begin`.
    if (isFunction(tx.savepoint) || isFunction(tx.release)) {
      return (statement, parameters) => tx.unsafe!(statement, parameters, { prepare: true });
    }
    throw invalid(
      "it is the client itself; pass the `sql` that `sql.begin` passes to its callback",
    );
  }
  if (isFunction(tx.executeQuery)) {
    if (isTransaction === true) return kyselyRunner(tx as Required<AnyClient>);
    throw invalid("it is the Kysely database; pass the `trx` of `db.transaction().execute(…)`");
  }
  if (session?.client !== undefined) {
    if (isFunction(tx.rollback)) return runnerOf(session.client);
    throw invalid("it is the Drizzle database; pass the `tx` of `db.transaction(…)`");
  }
  if (isFunction(tx.query)) {
    if (tx.totalCount !== undefined) {
      throw invalid("it is a pool; pass the client of `pool.connect()` on which you sent BEGIN");
    }
    if (tx.getTransactionStatus?.() === "I") {
      throw invalid("this client is not in a transaction; send BEGIN first");
    }
    return async (statement, parameters) => (await tx.query!(statement, parameters)).rows;
  }
  throw invalid(`got ${show(transaction)}`);
}

/** Kysely runs a compiled query; the parts of it are those of `CompiledQuery.raw`. */
function kyselyRunner(tx: Required<Pick<AnyClient, "executeQuery">>): Run {
  return async (sql, parameters) => {
    const query = { kind: "RawNode", sqlFragments: [sql], parameters: [] };
    const queryId = { queryId: "lastcall" };
    return (await tx.executeQuery({ sql, parameters, query, queryId })).rows;
  };
}

function isFunction(value: unknown): boolean {
  return typeof value === "function";
}

function invalid(why: string): InvalidParameterError {
  return new InvalidParameterError(
    `Invalid transaction: ${why}. A mailbox on PostgreSQL accepts the transaction of postgres.js (\`sql\` ` +
      "inside `sql.begin`), of pg (a client after BEGIN), of Drizzle on either of them, and of Kysely",
  );
}
