// What is said between a client and a PostgreSQL server, as a proxy between them hears it.

/** Tells which statement a client executes; the client names one that it has prepared before. */
export class Conversations {
  /** By connection and name. */
  readonly #prepared = new Map<string, string>();

  /** The text of the statement that these bytes execute; undefined when they execute none. */
  statementIn(text: string, connection: number): string | undefined {
    // A Parse message: its length, the name of the statement, its text.
    for (const [, name, statement] of text.matchAll(/P[^]{4}(\w+)\0([^\0]+)\0/g)) {
      this.#prepared.set(`${connection} ${name}`, statement!);
    }
    // A Bind message: its length, the portal without a name, the name of the statement.
    const bind = /B[^]{4}\0(\w+)\0/.exec(text);
    return bind === null ? undefined : this.#prepared.get(`${connection} ${bind[1]}`);
  }
}
