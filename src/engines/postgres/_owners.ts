import { deferred, settlesWithin } from "../../_promises.ts";
import type { Cancel, Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import { type Capabilities, FULL_CAPABILITIES } from "../../mailbox/capabilities.ts";
import type { Random } from "../../random.ts";
import { OwnerWatch } from "../_kit/owners.ts";
import { type Calls, isForbidden } from "./_calls.ts";
import { RELAXED } from "./_statements.ts";
import type { WakeUps } from "./_wake_ups.ts";

/** How long the connection of an owner must be absent. A client reconnects within about a second. */
const GRACE_MS = 2_000;

/** How long the first receive waits for the registration, which takes one connection and one statement. */
const FIRST_RECEIVE_MS = 1_000;

/** How long it takes until a failed registration is tried again. */
const RETRY_MS = 200;

/** How many deliveries have a receipt of their own. They share its other bits, the number of the owner. */
const RECEIPTS = 2 ** 32;

const UNREGISTERED_CAPABILITIES: Capabilities = { ...FULL_CAPABILITIES, ownerDetection: false };

/** What {@linkcode Owners} needs of its link. */
interface OwnersOptions {
  readonly schema: string;
  readonly calls: Calls;
  readonly wakeUps: WakeUps;
  readonly clock: Clock;
  readonly log: Log;
  /** Wakes the receivers of a queue in all processes. */
  wake(queue: string): void;
}

/**
 * The processes that receive messages of a schema, of which this is one: the owners of leases.
 *
 * An owner is alive while the server has the process of its connection, the one on which it listens. It registers
 * the pid of that process before its first receive, and again each time it has reconnected. Its number is part of
 * its receipts, so its leases are found when it has died.
 *
 * Only owners that have registered since the server started are looked at: the others have not reconnected yet.
 * Behind a connection pooler the pid that the client knows is not that of a process of the server. Then this
 * process is not registered, its leases expire only by time, and it still finds other owners that have died.
 */
export class Owners {
  readonly #options: OwnersOptions;
  readonly #statements: OwnerStatements;
  readonly #watch: OwnerWatch<string>;
  readonly #firstAttempt = deferred();
  /** Ends the wish to be told of the connection; undefined before the first receive. */
  #detach: (() => void) | undefined;
  #waited = false;
  #available = true;
  /** The number of this process, once it is registered. */
  #number: string | undefined;
  /** The pid of the connection, and the one that is registered. */
  #pid: number | undefined;
  #registeredPid: number | undefined;
  #registering: Promise<void> | undefined;
  #endPause: (() => void) | undefined;
  #lastReceipt = 0;
  #closed = false;

  constructor(options: OwnersOptions) {
    const { clock, log, schema } = options;
    this.#options = options;
    this.#statements = ownerStatements(schema);
    this.#watch = new OwnerWatch(
      { absent: () => this.#absent(), expire: (owner) => this.#expire(owner) },
      { queue: schema, clock, log, graceMs: GRACE_MS },
    );
  }

  /** Without `ownerDetection` when this process cannot be registered, so that its death is not noticed. */
  get capabilities(): Capabilities {
    return this.#available ? FULL_CAPABILITIES : UNREGISTERED_CAPABILITIES;
  }

  /** The time until the next look for dead owners is due, in milliseconds. */
  get nextLookMs(): number {
    return this.#watch.nextLookMs;
  }

  /** Looks for dead owners in the background, if a look is due. */
  look(): void {
    this.#watch.look();
  }

  /** True when a receive does not have to call `register` any more. */
  get isSettled(): boolean {
    return this.#waited;
  }

  /** True while this process is registered with its connection. */
  get isRegistered(): boolean {
    return this.#number !== undefined && this.#registeredPid === this.#pid;
  }

  /** Registers this process. The first call waits for it, but not long. */
  async register(): Promise<void> {
    if (this.#waited || this.#closed) return;
    this.#detach ??= this.#options.wakeUps.keep((pid) => this.#onConnection(pid));
    await settlesWithin(this.#firstAttempt.promise, FIRST_RECEIVE_MS, this.#options.clock);
    this.#waited = true;
  }

  /** Returns a new receipt. Without a number it is as random as in earlier versions, and below 2^53. */
  receipt(random: Random): string {
    if (this.#number === undefined) {
      return `${Math.floor(random.number() * Number.MAX_SAFE_INTEGER)}`;
    }
    this.#lastReceipt = (this.#lastReceipt + 1) % RECEIPTS;
    return `${BigInt(this.#number) * BigInt(RECEIPTS) + BigInt(this.#lastReceipt)}`;
  }

  /** Removes this process from the owners, so that its connection may end. Leases that are left expire. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#endPause?.();
    this.#detach?.();
    await Promise.all([this.#watch.stop(), this.#registering]);
    await this.#remove();
  }

  #onConnection(pid: number | undefined): void {
    if (this.#closed) return;
    this.#pid = pid;
    if (pid === undefined) {
      return this.#turnOff("the client does not tell the pid of its connection");
    }
    this.#registering ??= this.#registerAll().finally(() => this.#registering = undefined);
  }

  /** Registers the connection, and the next one if it has changed meanwhile. */
  async #registerAll(): Promise<void> {
    for (let attempt = 1; !this.#closed && this.#registeredPid !== this.#pid; attempt++) {
      const pid = this.#pid;
      const reason = await this.#tryToRegister(pid!);
      if (this.#pid !== pid) attempt = 0;
      else if (reason === undefined) this.#registeredPid = pid;
      else if (attempt > 1 && reason !== "") return this.#turnOff(reason);
      else await this.#pause();
    }
    this.#firstAttempt.resolve();
  }

  /** Returns undefined, or why it failed. The reason is empty when it may succeed later. */
  async #tryToRegister(pid: number): Promise<string | undefined> {
    try {
      const statement = this.#statements.register(this.#number ?? "null", pid);
      const [row] = await this.#options.calls.run("register the process", statement);
      if (row === undefined) {
        return "the server has no process with the pid of the connection, as behind a connection pooler";
      }
      this.#number = String(row.number);
      this.#available = true;
      return undefined;
    } catch (error) {
      this.#options.log.debug("cannot register this process as an owner of leases", { error });
      return isForbidden(error) ? (error as Error).message : "";
    }
  }

  #turnOff(reason: string): void {
    const { log, schema } = this.#options;
    if (this.#available) {
      log.warn(
        "owner detection is off: if this process dies, its messages reappear when their visibility timeout passes",
        { schema, reason },
      );
    }
    this.#available = false;
    this.#firstAttempt.resolve();
    void this.#remove();
  }

  async #remove(): Promise<void> {
    const number = this.#number;
    if (number === undefined) return;
    this.#number = undefined;
    try {
      const statement = this.#statements.remove(number);
      await this.#options.calls.run("end the registration of the process", statement);
    } catch (error) {
      this.#options.log.debug("cannot end the registration of this process", { error });
    }
  }

  async #pause(): Promise<void> {
    const { promise, resolve } = deferred();
    const cancel: Cancel = this.#options.clock.schedule(RETRY_MS, resolve);
    this.#endPause = resolve;
    await promise;
    cancel();
  }

  async #absent(): Promise<readonly string[]> {
    const own = [this.#number ?? null, this.#registeredPid === undefined ? null : `${this.#pid}`];
    const rows = await this.#options.calls.call(
      "look for owners that have died",
      this.#statements.absent,
      own,
    );
    if (rows.some(({ owner }) => owner === null) && this.#registeredPid === this.#pid) {
      // Another process took this one for dead, or an earlier registration arrived late.
      this.#registeredPid = undefined;
      this.#onConnection(this.#pid);
    }
    return rows.flatMap(({ owner }) => owner === null ? [] : [String(owner)]);
  }

  async #expire(owner: string): Promise<Readonly<Record<string, number>>> {
    const rows = await this.#options.calls.call(
      "expire the leases of a dead owner",
      this.#statements.expire,
      [owner],
    );
    for (const { mailbox } of rows) this.#options.wake(String(mailbox));
    return Object.fromEntries(
      rows.map(({ mailbox, messages }) => [String(mailbox), Number(messages)]),
    );
  }
}

/** The statements about owners. Those that run once have no parameters, which saves a round trip. */
interface OwnerStatements {
  register(number: string, pid: number): string;
  readonly absent: string;
  readonly expire: string;
  remove(number: string): string;
}

function ownerStatements(schema: string): OwnerStatements {
  const owners = `"${schema}".owners`;
  return {
    // Keeps the number, unless another process has removed it. Returns no row when there is no such process of
    // the server. Also removes old owners of an earlier start of the server, whose leases have expired.
    register: (number, pid) =>
      `with backend as materialized (
        select pid, backend_start from pg_stat_activity
        where pid = ${pid} and datname = current_database() and
          backend_start is not null and ${RELAXED}
      ), forgotten as (
        delete from ${owners} where server_start <> pg_postmaster_start_time() and
          registered_at < now() - interval '2 days' and number is distinct from ${number}::bigint
      ), again as (
        update ${owners} as owner set pid = backend.pid, backend_start = backend.backend_start,
          server_start = pg_postmaster_start_time(), registered_at = now()
        from backend where number = ${number}::bigint returning number
      ), added as (
        insert into ${owners} (pid, backend_start, server_start)
        select pid, backend_start, pg_postmaster_start_time() from backend
        where not exists (select from again) returning number
      )
      select number::text as number from again union all select number::text from added`,

    // Without permission to see the start of another user's process, the pid alone decides. The row without an
    // owner tells that this process is not registered with its connection. After a restart of the server it
    // registers when it listens again: until then it knows only the pid of the connection that has ended.
    absent: `select number::text as owner from ${owners} as owner
      where number is distinct from $1::text::bigint and
        server_start = pg_postmaster_start_time() and not exists (
          select from pg_stat_activity as backend where backend.pid = owner.pid and
            coalesce(backend.backend_start, owner.backend_start) = owner.backend_start
        )
      union all
      select null where $2::text is not null and not exists (
        select from ${owners}
        where number = $1::text::bigint and
          (pid = $2::text::bigint or server_start <> pg_postmaster_start_time())
      )`,
    expire: `select mailbox, messages::float8 as messages
      from "${schema}".expire_owner($1::text::bigint)`,
    remove: (number) => `delete from ${owners} where number = ${number} and ${RELAXED}`,
  };
}
