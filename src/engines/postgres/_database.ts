import { checkCount } from "../../_checks.ts";
import { settlesWithin } from "../../_promises.ts";
import type { Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import { arrayLiteral } from "./_array_literal.ts";
import { Calls } from "./_calls.ts";
import type { SqlClient } from "./client.ts";
import { Notices } from "./_notices.ts";
import { prepareSchema } from "./_schema.ts";
import { type Server, serverOf } from "./_server.ts";
import { type Statements, statementsFor } from "./_statements.ts";
import { Wakes } from "./_wakes.ts";

/** What mailboxes must have in common to share their connections. */
export interface DatabaseOptions {
  readonly target: string | SqlClient;
  readonly schema: string;
  readonly maxConnections: number;
  readonly callTimeoutMs: number;
  readonly clock: Clock;
}

/** What others were not told by then they find out by themselves. */
const LAST_NOTICES_MS = 1_000;

/**
 * The databases that mailboxes of this process have open. Those of one database share its connections,
 * and there is an entry only as long as one of them is open.
 */
const databases = new Set<Database>();

/** One schema of one database, shared by the mailboxes that have it open. */
export class Database {
  readonly calls: Calls;
  readonly statements: Statements;
  readonly wakes: Wakes;
  readonly #options: DatabaseOptions;
  readonly #server: Server;
  readonly #notices: Notices;
  #holders = 0;

  private constructor(options: DatabaseOptions, log: Log) {
    const { target, schema, maxConnections, callTimeoutMs, clock } = options;
    checkCount("maxConnections", maxConnections, 1, Number.MAX_SAFE_INTEGER);
    const channel = `${schema}_wake`;
    this.#options = options;
    this.#server = serverOf(target, callTimeoutMs);
    this.calls = new Calls(this.#server, maxConnections, callTimeoutMs, clock);
    this.statements = statementsFor(schema);
    const notify = (queues: readonly string[]) => {
      const parameters = [channel, this.wakes.sender, arrayLiteral(queues)];
      return this.calls.call("notify", this.statements.notify, parameters);
    };
    this.wakes = new Wakes(this.#server, channel, clock, log, () => notify([""]));
    this.#notices = new Notices(clock, notify);
  }

  /** The database with these options, which others may have open. It does nothing before `open`. */
  static of(options: DatabaseOptions, log: Log): Database {
    const keys = Object.keys(options) as (keyof DatabaseOptions)[];
    const same = (it: Database) => keys.every((key) => it.#options[key] === options[key]);
    return [...databases].find(same) ?? new Database(options, log);
  }

  /** Takes part in it, until {@linkcode letGo}. */
  async open(migrate: boolean): Promise<void> {
    databases.add(this);
    this.#holders++;
    try {
      await this.#server.load();
      await prepareSchema(this.calls, this.#options.schema, migrate);
    } catch (error) {
      await this.letGo();
      throw error;
    }
  }

  /** Messages of this queue may have become visible, here and elsewhere. */
  wake(queue: string): void {
    this.wakes.wake(queue);
    this.#notices.add(queue);
  }

  /** The last one to let go closes it. */
  async letGo(): Promise<void> {
    if (--this.#holders > 0) return;
    databases.delete(this);
    await settlesWithin(this.#notices.close(), LAST_NOTICES_MS, this.#options.clock);
    await Promise.all([this.wakes.close(), this.calls.close()]);
  }
}
