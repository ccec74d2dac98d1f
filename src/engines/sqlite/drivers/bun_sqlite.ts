import type { SqliteDatabase, SqliteStatement } from "../database.ts";

interface BunStatement extends SqliteStatement {
  finalize(): void;
}

interface BunModule {
  readonly Database: new (path: string) => {
    exec(sql: string): unknown;
    prepare(sql: string): BunStatement;
    close(): void;
  };
}

/** A variable, not a literal, because other runtimes would try to resolve the import. */
const MODULE: string = "bun:sqlite";

/** Opens a file with `bun:sqlite`. For versions of Bun without `node:sqlite`, which is as fast. */
export async function bunSqlite(path: string): Promise<SqliteDatabase> {
  const { Database } = await import(MODULE) as BunModule;
  const database = new Database(path);
  const statements: BunStatement[] = [];
  return {
    exec: (sql) => database.exec(sql),
    prepare(sql) {
      const statement = database.prepare(sql);
      statements.push(statement);
      return statement;
    },
    // A statement that is not finalized keeps the file open until it is garbage-collected.
    close() {
      for (const statement of statements) statement.finalize();
      database.close();
    },
  };
}
