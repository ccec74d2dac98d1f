import { checkCount } from "../../_checks.ts";
import { settlesWithin } from "../../_promises.ts";
import type { Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import { Calls } from "./_calls.ts";
import type { SqlClient } from "./client.ts";
import { Notifier } from "./_notifier.ts";
import { prepareSchema } from "./_schema.ts";
import { type Server, serverOf } from "./_server.ts";
import { arrayLiteral, type Statements, statementsFor } from "./_statements.ts";
import { Wakes } from "./_wakes.ts";

/** Mailboxes with equal options share their connections. */
export interface DatabaseOptions {
  readonly target: string | SqlClient;
  readonly schema: string;
  readonly maxConnections: number;
  readonly callTimeoutMs: number;
  readonly clock: Clock;
}

/** How long a close waits for the last notifications; other processes also poll. */
const LAST_NOTIFICATIONS_MS = 1_000;

/** The open databases of this process. An entry exists while a mailbox has it open. */
const databases = new Set<Database>();

/** One schema of a database. The mailboxes that have it open share its connections. */
export class Database {
  readonly calls: Calls;
  readonly statements: Statements;
  readonly wakes: Wakes;
  readonly #options: DatabaseOptions;
  readonly #server: Server;
  readonly #notifier: Notifier;
  #users = 0;

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
    this.#notifier = new Notifier(clock, notify);
  }

  /** Returns the open database with these options, or a new one, which connects in `open`. */
  static of(options: DatabaseOptions, log: Log): Database {
    const keys = Object.keys(options) as (keyof DatabaseOptions)[];
    const same = (it: Database) => keys.every((key) => it.#options[key] === options[key]);
    return [...databases].find(same) ?? new Database(options, log);
  }

  /** Adds a user, until {@linkcode letGo}. The first one connects and prepares the schema. */
  async open(migrate: boolean): Promise<void> {
    databases.add(this);
    this.#users++;
    try {
      await this.#server.load();
      await prepareSchema(this.calls, this.#options.schema, migrate);
    } catch (error) {
      await this.letGo();
      throw error;
    }
  }

  /** Wakes the receivers of this queue in this process and notifies the other processes. */
  wake(queue: string): void {
    this.wakes.wake(queue);
    this.#notifier.add(queue);
  }

  /** Removes a user. The last one closes the connections. */
  async letGo(): Promise<void> {
    if (--this.#users > 0) return;
    databases.delete(this);
    await settlesWithin(this.#notifier.close(), LAST_NOTIFICATIONS_MS, this.#options.clock);
    await Promise.all([this.wakes.close(), this.calls.close()]);
  }
}
