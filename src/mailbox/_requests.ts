import { backoffMs } from "../_backoff.ts";
import { checkInterval, MAX_VISIBILITY_MS } from "../_checks.ts";
import { onAbort } from "../_promises.ts";
import { type Clock, systemClock } from "../clock.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import { type Random, systemRandom } from "../random.ts";
import type { Engine } from "./engine.ts";
import { InvalidParameterError, MailboxClosedError, RequestTimeoutError } from "./errors.ts";
import type {
  Mailbox,
  MailboxOptions,
  Message,
  RequestOptions,
  SendOptions,
  SendResult,
} from "./mailbox.ts";

/** The header of a reply that has the id of its request. */
const REQUEST_ID = "lastcall-request-id";

/** The end of the name of a reply mailbox. A mailbox of the user with another end is left alone. */
const REPLY_ID_LENGTH = 13;
const REPLY_ID = /^[0-9a-f-]{13}$/;

const DEFAULT_TIMEOUT_MS = 30_000;
/** How long one receive of replies waits. */
const WAIT_MS = 20_000;
/** Replies that are older than this belong to a process that has ended. */
const ORPHANED_MS = 3_600_000;
const PAUSE_MS = { min: 100, max: 1_000 } as const;

/** Stores a reply. */
export interface ReplySender {
  send(body: unknown, options: SendOptions): Promise<SendResult>;
}

/** Sends the reply to a request. Drops it when the request has timed out. */
export async function requestReply(
  { id, expiresAt = Infinity }: Pick<Message<unknown>, "id" | "expiresAt">,
  body: unknown,
  to: ReplySender,
  clock: Clock,
): Promise<void> {
  const leftMs = expiresAt - clock.now();
  if (leftMs <= 0) return;
  // The requester may end meanwhile: the reply must not stay.
  await to.send(body, {
    headers: { [REQUEST_ID]: id },
    ...(leftMs === Infinity ? {} : { expiresInMs: leftMs, onExpired: "drop" }),
  });
}

/** A request that waits for its reply. */
interface Pending<R> {
  resolve(reply: R): void;
  reject(error: unknown): void;
}

/**
 * Sends requests and waits for their replies.
 *
 * All requests of a process to a mailbox share one reply mailbox, a queue of the same storage. It is received
 * from while a request waits. A reply whose request has timed out is deleted. A request expires with its
 * timeout, and so does its reply. Replies that a crashed process left are deleted by the next process.
 */
export class Requests<T, R> {
  readonly #mailbox: Mailbox<T, R>;
  readonly #engine: Engine<unknown>;
  readonly #replies: Mailbox<R>;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #log: Log;
  readonly #pending = new Map<string, Pending<R>>();
  readonly #idPrefix: string;
  #lastId = 0;
  #receiving: Promise<void> | undefined;
  #stop = new AbortController();
  #closed = false;

  constructor(
    mailbox: Mailbox<T, R>,
    engine: unknown,
    options: MailboxOptions,
    open: (name: string) => Mailbox<R>,
  ) {
    this.#mailbox = mailbox;
    this.#engine = engine as Engine<unknown>;
    this.#clock = options.clock ?? systemClock;
    this.#log = safeLog(options.log);
    this.#random = options.random ?? systemRandom;
    const id = this.#random.id();
    this.#idPrefix = `${id}-`;
    this.#replies = open(`${replyPrefix(mailbox.name)}${id.slice(0, REPLY_ID_LENGTH)}`);
    this.#deleteOrphans();
  }

  /** Returns true for the name of a reply mailbox of requests to this mailbox. */
  static isReplyName(mailbox: string, name: string): boolean {
    const prefix = replyPrefix(mailbox);
    return name.startsWith(prefix) && REPLY_ID.test(name.slice(prefix.length));
  }

  async request(body: T, options: RequestOptions): Promise<R> {
    const { timeoutMs = DEFAULT_TIMEOUT_MS, signal, ...sendOptions } = options;
    checkInterval("timeoutMs", timeoutMs, MAX_VISIBILITY_MS);
    signal?.throwIfAborted();
    const id = sendOptions.id ?? `${this.#idPrefix}${++this.#lastId}`;
    if (this.#pending.has(id)) {
      throw new TypeError(`Invalid id "${id}": a request with this id is waiting for its reply`);
    }
    return await new Promise<R>((resolve, reject) => {
      const unlink = onAbort(signal, () => this.#pending.get(id)?.reject(signal!.reason));
      const cancel = this.#clock.schedule(timeoutMs, () => {
        this.#pending.get(id)?.reject(
          new RequestTimeoutError(
            `No reply to request ${id} from "${this.#mailbox.name}" within ${timeoutMs} ms`,
          ),
        );
      });
      const end = () => {
        unlink();
        cancel();
        this.#pending.delete(id);
        if (this.#pending.size === 0) this.#stop.abort();
      };
      this.#pending.set(id, {
        resolve: (reply) => (end(), resolve(reply)),
        reject: (error) => (end(), reject(error)),
      });
      this.#mailbox.send(body, {
        ...sendOptions,
        id,
        replyTo: this.#replies.name,
        expiresInMs: timeoutMs,
        onExpired: "drop",
      }).then(({ stored }) => {
        if (!stored) this.#pending.get(id)?.reject(duplicateRequest(id, this.#mailbox.name));
      }).catch((error) => this.#pending.get(id)?.reject(error));
      this.#receiving ??= this.#receive();
    });
  }

  /** Rejects the waiting requests, and deletes the reply mailbox. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const { reject } of [...this.#pending.values()]) {
      reject(new MailboxClosedError(`No reply: mailbox "${this.#mailbox.name}" was closed`));
    }
    this.#stop.abort();
    await this.#receiving;
    try {
      await this.#drop(this.#replies.name);
    } catch (error) {
      this.#log.warn("reply mailbox could not be deleted", { mailbox: this.#replies.name, error });
    }
    await this.#replies.close();
  }

  /** Receives replies while requests wait. */
  async #receive(): Promise<void> {
    let failures = 0;
    while (this.#pending.size > 0 && !this.#closed) {
      if (this.#stop.signal.aborted) this.#stop = new AbortController();
      const { signal } = this.#stop;
      try {
        const options = { maxMessages: 100, waitTimeMs: WAIT_MS, visibilityTimeoutMs: 30_000 };
        const replies = await this.#replies.receive({ ...options, signal });
        failures = 0;
        for (const { headers, body } of replies) {
          this.#pending.get(headers[REQUEST_ID] ?? "")?.resolve(body);
        }
        if (replies.length > 0) await this.#replies.acknowledgeMany!(replies);
      } catch (error) {
        failures++;
        this.#log.warn("receive of replies failed; trying again", {
          mailbox: this.#replies.name,
          failures,
          error,
        });
        await this.#clock.sleep(backoffMs(failures, PAUSE_MS.min, PAUSE_MS.max, this.#random), {
          signal,
        })
          .catch(() => {}); // no request waits any more
      }
    }
    this.#receiving = undefined;
  }

  /** Deletes the replies to processes that have ended. */
  async #deleteOrphans(): Promise<void> {
    try {
      for (const name of await this.#engine.queues?.() ?? []) {
        if (!Requests.isReplyName(this.#mailbox.name, name) || name === this.#replies.name) {
          continue;
        }
        const { oldestWaitingMs = 0 } = await this.#engine.queue!(name).stats();
        if (oldestWaitingMs > ORPHANED_MS) await this.#drop(name);
      }
    } catch (error) {
      this.#log.warn("orphaned replies could not be deleted", {
        mailbox: this.#mailbox.name,
        error,
      });
    }
  }

  async #drop(name: string): Promise<void> {
    const engine = this.#engine.queue!(name);
    if (engine.drop === undefined) await engine.purge();
    else await engine.drop();
  }
}

function duplicateRequest(id: string, mailbox: string): InvalidParameterError {
  return new InvalidParameterError(
    `Cannot send request ${id} to "${mailbox}": the mailbox has a message with this id, or remembers it`,
  );
}

function replyPrefix(mailbox: string): string {
  return `${mailbox}.replies.`;
}
