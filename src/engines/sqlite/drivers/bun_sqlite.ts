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

/** Not a literal: the other runtimes would look for it when they check their imports. */
const MODULE: string = "bun:sqlite";

/** For versions of Bun that lack `node:sqlite`; it is no faster where both are there. */
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
    // A statement that is still there would keep the file open until it is collected.
    close() {
      for (const statement of statements) statement.finalize();
      database.close();
    },
  };
}
