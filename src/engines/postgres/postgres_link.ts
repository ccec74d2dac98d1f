/**
 * The connections of mailboxes to one schema of a PostgreSQL server. Other parts of the package that store
 * data there share them.
 *
 * @module
 */

import { checkCount } from "../../_checks.ts";
import { settlesWithin } from "../../_promises.ts";
import type { Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import { Calls } from "./_calls.ts";
import { type Server, serverOf, type SqlClient } from "./client.ts";
import { Notifier } from "./_notification.ts";
import { Owners } from "./_owners.ts";
import { checkSchema, prepareSchema } from "./_schema.ts";
import { arrayLiteral, type Statements, statementsFor } from "./_statements.ts";
import { WakeUps } from "./_wake_ups.ts";

export type { Calls as PostgresCalls } from "./_calls.ts";
export { arrayLiteral } from "./_statements.ts";

/** Mailboxes with equal options share their connections. */
export interface PostgresLinkOptions {
  readonly target: string | SqlClient;
  readonly schema: string;
  readonly maxConnections: number;
  readonly callTimeoutMs: number;
  readonly clock: Clock;
}

/** How long a close waits for the last notifications and the end of its registration. Other processes also poll. */
const LAST_CALLS_MS = 1_000;

/** The open links of this process. An entry exists while a mailbox has it open. */
const links = new Set<PostgresLink>();

/** One schema of a database. The mailboxes that have it open share its connections. */
export class PostgresLink {
  readonly calls: Calls;
  readonly statements: Statements;
  readonly wakeUps: WakeUps;
  readonly owners: Owners;
  /** The channel of the notifications. */
  readonly channel: string;
  readonly #options: PostgresLinkOptions;
  readonly #server: Server;
  readonly #notifier: Notifier;
  #users = 0;

  private constructor(options: PostgresLinkOptions, log: Log) {
    const { target, schema, maxConnections, callTimeoutMs, clock } = options;
    checkCount("maxConnections", maxConnections, 1, Number.MAX_SAFE_INTEGER);
    const channel = `${schema}_wake`;
    this.channel = channel;
    this.#options = options;
    this.#server = serverOf(target, callTimeoutMs);
    this.calls = new Calls(this.#server, maxConnections, callTimeoutMs, clock);
    this.statements = statementsFor(schema);
    const notify = (queues: readonly string[]) => {
      const parameters = [channel, this.wakeUps.sender, arrayLiteral(queues)];
      return this.calls.call("notify", this.statements.notify, parameters);
    };
    this.wakeUps = new WakeUps(this.#server, channel, clock, log, () => notify([""]));
    this.#notifier = new Notifier(clock, notify);
    const { calls, wakeUps } = this;
    const wake = (queue: string) => this.wake(queue);
    this.owners = new Owners({ schema, calls, wakeUps, clock, log, wake });
  }

  /** Returns the open database with these options, or a new one, which connects in `open`. */
  static of(options: PostgresLinkOptions, log: Log): PostgresLink {
    const keys = Object.keys(options) as (keyof PostgresLinkOptions)[];
    const same = (it: PostgresLink) => keys.every((key) => it.#options[key] === options[key]);
    return [...links].find(same) ?? new PostgresLink(options, log);
  }

  /** Adds a user, until {@linkcode letGo}. The first one connects and prepares the schema. */
  async open(migrate: boolean): Promise<void> {
    links.add(this);
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
    this.wakeUps.wake(queue);
    this.#notifier.add(queue);
  }

  /** Removes a user. The last one closes the connections. */
  async letGo(): Promise<void> {
    if (--this.#users > 0) return;
    links.delete(this);
    const last = Promise.all([this.#notifier.close(), this.owners.close()]);
    await settlesWithin(last, LAST_CALLS_MS, this.#options.clock);
    await Promise.all([this.wakeUps.close(), this.calls.close()]);
  }
}

/** Opens a schema and creates it if it does not exist. The caller has to call `letGo` in the end. */
export async function openPostgresLink(
  options: PostgresLinkOptions,
  migrate: boolean,
  log: Log,
): Promise<PostgresLink> {
  const link = PostgresLink.of({ ...options, schema: checkSchema(options.schema) }, log);
  await link.open(migrate);
  return link;
}
