import { show } from "../_checks.ts";
import { abortable } from "../_promises.ts";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import { checkMailboxName } from "../mailbox/envelope.ts";
import { InvalidParameterError } from "../mailbox/errors.ts";
import type { Mailbox, MailboxOptions } from "../mailbox/mailbox.ts";
import { checkParams, type MailboxUrl, nameInPath, parseMailboxUrl } from "./_kit/mailbox_url.ts";
import { type EngineRegistration, limits, type MailboxOpener } from "./_kit/registration.ts";
import { ENGINES } from "./registry.ts";

/** Options of {@linkcode openMailbox}. */
export interface OpenMailboxOptions extends MailboxOptions {
  /** Additional engines by scheme. An engine with a built-in scheme replaces the built-in one. */
  readonly engines?: Readonly<Record<string, MailboxOpener>>;
}

/**
 * Opens the mailbox of a URL, for programs that read their engine from the configuration.
 *
 * | URL | mailbox |
 * |---|---|
 * | `memory:`, `memory:orders?maxSize=100` | `InMemoryMailbox` |
 * | `sqlite:./jobs.db?queue=orders&durability=full&maxSize=100` | `SqliteMailbox` |
 * | `sqlite:./app.db?queue=orders&sharedFile=true`, beside the tables of a program | `SqliteMailbox` |
 * | `nats://host:4222?queue=orders&maxSize=100`, `tls://…` | `NatsMailbox` |
 * | `postgres://host:5432/shop?queue=orders&schema=lastcall&maxSize=100`, `postgresql://…` | `PostgresMailbox` |
 * | `redis://host:6379/0?queue=orders&maxSize=100`, `rediss://…` | `RedisMailbox` |
 * | `redis+cluster://host:6379,other:6379?queue=orders&maxSize=100`, `rediss+cluster://…` | `RedisMailbox` |
 * | `denokv:./jobs.kv?queue=orders&maxSize=100`, `denokv:` for the default database of the program | `DenoKvMailbox` |
 * | `sqs:https://sqs.eu-west-1.amazonaws.com/123/orders`, `sqs:orders?region=eu-west-1&create=true` | `SqsMailbox` |
 *
 * All engines except `memory:` also accept `maxBodyBytes=1048576`.
 *
 * @example
 * ```ts
 * import { openMailbox } from "@lastcall/lastcall";
 *
 * const url = "memory:orders"; // from the configuration
 * await using orders = await openMailbox<{ item: string }>(url);
 * await orders.send({ item: "tea" });
 * ```
 *
 * @example An engine of your own
 * ```ts
 * import { InMemoryMailbox, openMailbox } from "@lastcall/lastcall";
 *
 * await using orders = await openMailbox("pigeon:roof", {
 *   engines: { pigeon: (url, options) => new InMemoryMailbox(url.path, options) },
 * });
 * console.assert(orders.name === "roof");
 * ```
 */
export async function openMailbox<T, R = unknown>(
  url: string,
  options: OpenMailboxOptions = {},
): Promise<Mailbox<T, R>> {
  const { engines = {}, ...mailboxOptions } = options;
  const parsed = parseMailboxUrl(url);
  const { scheme } = parsed;
  if (Object.hasOwn(engines, scheme)) {
    return await engines[scheme]!(parsed, mailboxOptions) as unknown as Mailbox<T, R>;
  }
  const engine = registrationOf(parsed, Object.keys(engines));
  queueOf(parsed, engine);
  return await engine.open(parsed, mailboxOptions) as unknown as Mailbox<T, R>;
}

/**
 * Checks a URL without opening anything, and returns the name of its queue.
 *
 * @throws {InvalidParameterError} when the URL is malformed, has a scheme or parameter that is unknown, or
 * names an invalid queue.
 */
export function checkMailboxUrl(url: string): string {
  const parsed = parseMailboxUrl(url);
  const engine = registrationOf(parsed);
  limits(parsed);
  return queueOf(parsed, engine);
}

/**
 * Returns the name of a mailbox, or of the queue of its URL, and opens nothing.
 *
 * @throws {TypeError} when `source` is neither. @throws {InvalidParameterError} when the URL is invalid.
 */
export function mailboxName<T, R>(source: Mailbox<T, R> | string): string {
  if (typeof source === "string") return checkMailboxUrl(source);
  if (typeof source?.receive === "function") return source.name;
  throw new TypeError(`Invalid mailbox: expected a mailbox or the URL of one, got ${show(source)}`);
}

/**
 * Calls `use` with a mailbox. The mailbox of a URL is opened before and closed after. Returns without a call
 * when a stop begins before it is open.
 */
export async function withMailbox<T, R>(
  source: Mailbox<T, R> | string,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  stopping: AbortSignal,
  use: (mailbox: Mailbox<T, R>) => Promise<void>,
): Promise<void> {
  if (typeof source !== "string") return await use(source);
  const close = async (mailbox: Mailbox<T, R>) => {
    try {
      await mailbox.close();
    } catch (error) {
      log.warn("mailbox could not be closed", { mailbox: mailbox.name, error });
    }
  };
  const opening = openMailbox<T, R>(source, { clock, log });
  let mailbox: Mailbox<T, R>;
  try {
    mailbox = await abortable(opening, stopping);
  } catch (error) {
    if (!stopping.aborted) throw error;
    opening.then(close, () => {}); // when it arrives late
    return;
  }
  try {
    await use(mailbox);
  } finally {
    await close(mailbox);
  }
}

/** Returns the name of the queue of a URL. */
function queueOf(url: MailboxUrl, { name, parameters }: EngineRegistration): string {
  const queue = parameters.includes("queue")
    ? url.params.get("queue") ?? "default"
    : nameInPath(url) || name;
  try {
    return checkMailboxName(queue);
  } catch (error) {
    throw new InvalidParameterError((error as Error).message, { cause: error });
  }
}

/** Returns the engine of a URL, which has only parameters that the engine knows. */
function registrationOf(
  parsed: MailboxUrl,
  otherSchemes: readonly string[] = [],
): EngineRegistration {
  const { scheme } = parsed;
  const engine = ENGINES.find(({ schemes }) => schemes.includes(scheme));
  if (engine === undefined) {
    const known = [...ENGINES.flatMap(({ schemes }) => schemes), ...otherSchemes];
    throw new InvalidParameterError(
      `Unknown scheme ${show(scheme)} of a mailbox URL: expected one of ${
        known.join(", ")
      }; pass ` +
        "other engines as `engines`",
    );
  }
  if (engine.passesParameters !== true) checkParams(parsed, engine.parameters);
  return engine;
}
