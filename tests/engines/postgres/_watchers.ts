// Processes that hold messages, and mailboxes in this process that look for dead ones.

import postgres from "postgres";
import { PostgresMailbox, type SqlClient } from "../../../src/engines/postgres/mod.ts";
import type { Message } from "../../../src/mailbox/mailbox.ts";
import { type Log, silentLog } from "../../../src/log.ts";
import { Child } from "../../signals/_child.ts";
import { Waiting } from "../../_waiting.ts";

/** A process that holds messages. */
export interface Holder extends AsyncDisposable {
  readonly child: Child;
  /** The receipt handles of the messages. */
  readonly handles: readonly string[];
}

/** Starts a process that receives a message of each queue and holds it. */
export async function holder(url: string, schema: string, ...queues: string[]): Promise<Holder> {
  const child = Child.start("../../engines/postgres/fixtures/owner", {
    args: [url, schema, ...queues],
  });
  const pattern = new RegExp("holds (\\S+)\\s+".repeat(queues.length));
  const [, ...handles] = await child.matches(pattern);
  return { child, handles, [Symbol.asyncDispose]: () => child[Symbol.asyncDispose]() };
}

/** A mailbox with a client of its own, which counts its statements. */
export class Watcher implements AsyncDisposable {
  readonly mailbox: PostgresMailbox<string>;
  /** The warnings, with the names of the mailboxes. */
  readonly warnings: string[];
  readonly #counter: Counter;
  readonly #ending = new AbortController();
  #receiving: Promise<Message<string>[]> | undefined;

  private constructor(mailbox: PostgresMailbox<string>, warnings: string[], counter: Counter) {
    this.mailbox = mailbox;
    this.warnings = warnings;
    this.#counter = counter;
  }

  /** Opens the queue. It receives by notifications and looks only, without polling. */
  static async open(url: string, schema: string, name: string): Promise<Watcher> {
    const counter = new Counter(url);
    const warnings: string[] = [];
    const log: Log = {
      ...silentLog,
      warn(message, { mailbox, schema } = {}) {
        warnings.push(`${mailbox ?? schema}: ${message}`);
        counter.waiting.look();
      },
    };
    const mailbox = await PostgresMailbox.open<string>(counter.client, {
      ...{ schema, name, log, pollIntervalMs: 3_600_000 },
    });
    return new Watcher(mailbox, warnings, counter);
  }

  /** How many statements it has sent. */
  get statements(): number {
    return this.#counter.statements;
  }

  /** How often it has looked for dead owners. */
  get looks(): number {
    return this.#counter.looks;
  }

  /** Waits for a message, which is received only when its holder has died. */
  receive(): Promise<Message<string>[]> {
    const { signal } = this.#ending;
    return this.#receiving ??= this.mailbox.receive({ waitTimeMs: 120_000, signal });
  }

  /** Waits for this many warnings. */
  async warned(count: number): Promise<void> {
    await this.#counter.waiting.until(() => this.warnings.length >= count, `${count} warnings`);
  }

  /** Receives nothing while it looks so many times. */
  async receivesNothingIn(looks: number): Promise<void> {
    const target = this.looks + looks;
    let received: readonly Message<string>[] | undefined;
    const waiting = this.#counter.waiting;
    this.receive().then((messages) => {
      received = messages;
      waiting.look();
    }, () => {});
    await waiting.until(() => received !== undefined || this.looks >= target, `${looks} looks`);
    if (received !== undefined) throw new Error(`Received ${received.map(({ body }) => body)}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort();
    await this.#receiving?.catch(() => {});
    await this.mailbox.close();
    await this.#counter.end();
  }
}

/** A client that counts statements. */
class Counter {
  readonly waiting: Waiting = new Waiting(60_000, () => `; statements: ${this.statements}`);
  readonly client: SqlClient;
  readonly end: () => Promise<void>;
  statements = 0;
  looks = 0;

  constructor(url: string) {
    const sql = postgres(url, { max: 3, onnotice() {}, backoff: () => 0.1 });
    this.end = () => sql.end();
    this.client = {
      unsafe: (statement, parameters, options) => {
        this.statements++;
        const query = sql.unsafe(statement, parameters, options);
        if (!statement.includes("as owner from")) return query;
        const counted = async () => {
          const rows = await query;
          this.looks++;
          this.waiting.look();
          return rows;
        };
        return counted();
      },
      listen: (...args) => sql.listen(...args),
    };
  }
}
