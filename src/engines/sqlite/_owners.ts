import type { Clock } from "../../clock.ts";
import { errorText } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { isMailboxError } from "../../mailbox/errors.ts";
import type { Random } from "../../random.ts";
import { OwnerWatch } from "../_kit/owners.ts";
import type { Connection } from "./_connection.ts";
import type { SqliteDriver } from "./drivers.ts";
import { lockPath, lockTokens, OwnerLock, removeIfAbandoned } from "./_owner_lock.ts";
import { NONCE_BITS, type Statements } from "./_statements.ts";
import { wakeLocal } from "./_wake_ups.ts";

/** Options of {@linkcode Owners}. */
export interface OwnersOptions {
  /** The name of the mailbox, for logs. */
  readonly queue: string;
  readonly driver: SqliteDriver;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

/** This process among the owners of one file. */
interface Owner {
  /** Part of the receipt handles of all its deliveries. */
  readonly number: number;
  readonly token: string;
  readonly lock: { release(): Promise<void> };
}

/** The registration of this process with one file, which all its mailboxes on the file share. */
interface Registration {
  /** Undefined when the process cannot lock a file. */
  readonly owner: Promise<Owner | undefined>;
  users: number;
}

/**
 * The registrations of this process, shared by all copies of the package in it. A change in the meaning of a
 * member needs a new key.
 */
interface ProcessOwners {
  /** By the identity of the mailbox file. */
  readonly registrations: Map<string, Registration>;
  /** The lock files that this process must not open again. */
  readonly tokens: Set<string>;
}

const KEY = Symbol.for("lastcall.sqlite.owners.v1");

function processOwners(): ProcessOwners {
  const globals = globalThis as { [KEY]?: ProcessOwners };
  return globals[KEY] ??= { registrations: new Map(), tokens: new Set() };
}

/** The highest number of an owner: a nonce must be a safe integer. */
const MAX_NUMBER = 2 ** (53 - NONCE_BITS) - 1;

/** How often a process tries to lock a new file. Another process may be looking at it in that moment. */
const ATTEMPTS = 10;

/** How many hidden messages are examined for leases. With more, some are taken to be in flight. */
const EXAMINED = 1_000;

/**
 * The processes that lease messages of a file.
 *
 * A process registers with its first delivery: it locks a file of its own beside the mailbox file, and adds a
 * row with a number to the table of owners. The number is part of its receipt handles. Other processes try to
 * lock the same file: when they can, the process has ended, and they expire the leases with its number. A
 * process that is frozen keeps its lock.
 */
export class Owners {
  readonly #connection: Connection;
  readonly #options: OwnersOptions;
  readonly #watch: OwnerWatch<string>;
  #registration: Registration | undefined;
  #number: number | undefined;
  #available = true;
  #closed = false;
  #sweeping: Promise<void> | undefined;

  constructor(connection: Connection, options: OwnersOptions) {
    this.#connection = connection;
    this.#options = options;
    this.#watch = new OwnerWatch<string>({
      absent: () => this.#absent(),
      expire: (token) => this.#expire(token),
    }, { ...options, graceMs: 0 });
  }

  /** False when this process cannot lock a file. */
  get available(): boolean {
    return this.#available;
  }

  /** The number of this process: undefined before it is registered, 0 when it cannot be. */
  get number(): number | undefined {
    return this.#number;
  }

  /** Registers this process, once for all its mailboxes on the file. Returns its number, or 0. */
  async register(): Promise<number> {
    if (this.#closed) return 0;
    const { registrations } = processOwners();
    const key = this.#key;
    let registration = this.#registration ?? registrations.get(key);
    if (registration === undefined) {
      registration = { owner: this.#create(), users: 0 };
      registrations.set(key, registration);
    }
    if (this.#registration === undefined) registration.users++;
    this.#registration = registration;
    try {
      const owner = await registration.owner;
      this.#available = owner !== undefined;
      return this.#number = owner?.number ?? 0;
    } catch (error) {
      // The mailbox file failed. The next receive tries again.
      if (registrations.get(key) === registration) registrations.delete(key);
      if (this.#registration === registration) this.#registration = undefined;
      throw error;
    }
  }

  /** Looks for processes that have ended, in the background, at most once a second. */
  look(): void {
    if (this.#available && !this.#closed) this.#watch.look();
  }

  /** Shortens a wait of `dueMs` to the next look, if another process may lease a message of the queue. */
  waitMs({ inFlight }: Statements, queue: string, dueMs: number): number {
    if (!this.#available || dueMs === 0 || dueMs === Infinity) return dueMs;
    const { hidden, leased } = inFlight.get(this.#number ?? 0, queue, EXAMINED) as {
      readonly hidden: number;
      readonly leased: number;
    };
    if (leased === 0 && hidden < EXAMINED) return dueMs;
    return Math.min(dueMs, this.#watch.nextLookMs);
  }

  /** Removes the registration with the last mailbox of this process on the file. Leases that are left stay. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#watch.stop();
    const registration = this.#registration;
    const owner = await registration?.owner.catch(() => undefined);
    await this.#sweeping;
    if (registration === undefined || --registration.users > 0) return;
    const { registrations, tokens } = processOwners();
    const key = this.#key;
    if (registrations.get(key) === registration) registrations.delete(key);
    if (owner === undefined) return;
    try {
      // Tried once, without waiting for a lock. If it fails, other processes take this one for ended.
      this.#connection.opened.statements.removeOwner.run(owner.token);
    } catch {
      // The file is locked or gone.
    }
    await owner.lock.release();
    tokens.delete(owner.token);
  }

  get #key(): string {
    return this.#connection.opened.identity.key;
  }

  async #create(): Promise<Owner | undefined> {
    const { driver, log, queue } = this.#options;
    let reason = "";
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const token = this.#random(2 ** 32).toString(16).padStart(8, "0");
      processOwners().tokens.add(token);
      try {
        const lock = await OwnerLock.create(lockPath(this.#connection.realPath, token), driver);
        const number = await this.#add(token, lock);
        if (number !== undefined) {
          this.#sweeping = this.#sweep();
          return { number, token, lock };
        }
        reason = lock.refusal;
      } catch (error) {
        if (isMailboxError(error)) throw error; // of the mailbox file
        reason = errorText(error);
      }
    }
    log.warn("dead workers are not detected; their messages reappear when their leases expire", {
      mailbox: queue,
      file: lockPath(this.#connection.realPath, "*"),
      reason,
    });
    return undefined;
  }

  /**
   * Locks the file, and then adds the owner. Returns undefined when the lock is refused. The file is locked first,
   * because another process removes one that is not locked, and the transaction may have to wait.
   */
  async #add(token: string, lock: OwnerLock): Promise<number | undefined> {
    let number: number | undefined;
    try {
      if (!lock.lock()) return undefined;
      number = await this.#connection.write(() => {
        const { addOwner } = this.#connection.opened.statements;
        for (;;) {
          const number = 1 + this.#random(MAX_NUMBER);
          if (Number(addOwner.run(number, token).changes) > 0) return number;
        }
      });
      return number;
    } finally {
      if (number === undefined) await lock.release();
    }
  }

  /** Removes lock files that no row tells of, as after a crash between the lock and the row. */
  async #sweep(): Promise<void> {
    const { realPath } = this.#connection;
    for (const token of await lockTokens(realPath).catch(() => [])) await this.#isGone(token);
  }

  async #absent(): Promise<readonly string[]> {
    const rows = await this.#connection.read(() => {
      return this.#connection.opened.statements.owners.all() as { readonly token: string }[];
    });
    const gone: string[] = [];
    for (const { token } of rows) if (await this.#isGone(token)) gone.push(token);
    return gone;
  }

  async #isGone(token: string): Promise<boolean> {
    if (this.#closed || processOwners().tokens.has(token)) return false;
    return await removeIfAbandoned(
      lockPath(this.#connection.realPath, token),
      this.#options.driver,
    );
  }

  async #expire(token: string): Promise<number> {
    const expired = await this.#connection.write(() => {
      const { findOwner, removeOwner, allQueues, expireLeases } =
        this.#connection.opened.statements;
      const found = findOwner.get(token) as { readonly number: number } | null | undefined;
      if (!found) return []; // another process was faster
      removeOwner.run(token);
      return (allQueues.all() as { readonly name: string }[]).map(({ name }) => {
        return { name, messages: Number(expireLeases.run(name, found.number).changes) };
      });
    });
    let count = 0;
    for (const { name, messages } of expired) {
      count += messages;
      if (messages > 0) wakeLocal(this.#connection.realPath, name, "messages");
    }
    return count;
  }

  #random(below: number): number {
    return Math.floor(this.#options.random.number() * below);
  }
}
