import { show } from "../_checks.ts";
import { InvalidParameterError } from "../mailbox/errors.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { MailboxOptions } from "../mailbox/mailbox.ts";
import {
  checkParams,
  countParam,
  flagParam,
  type MailboxUrl,
  parseMailboxUrl,
} from "./mailbox_url.ts";

/** Opens the mailbox of a URL. Refuses unknown parameters before it does anything else. */
export type MailboxOpener = (
  url: MailboxUrl,
  options: MailboxOptions,
) => Mailbox<unknown> | Promise<Mailbox<unknown>>;

/** Options of {@linkcode openMailbox}. */
export interface OpenMailboxOptions extends MailboxOptions {
  /** Additional engines by scheme. An engine with a built-in scheme replaces the built-in one. */
  readonly engines?: Readonly<Record<string, MailboxOpener>>;
}

/** The parameters of all engines that store messages outside the process. */
const LIMITS = ["maxSize", "maxBodyBytes"] as const;

/** Loads an engine only when a URL needs it. */
const BUILT_IN: Readonly<Record<string, MailboxOpener>> = {
  async memory(url, options) {
    checkParams(url, ["maxSize"]);
    const { InMemoryMailbox } = await import("../mailbox/in_memory_mailbox.ts");
    return new InMemoryMailbox(
      url.path || undefined,
      definedOptions({
        ...options,
        maxSize: countParam(url, "maxSize"),
      }),
    );
  },

  async sqlite(url, options) {
    checkParams(url, ["queue", "durability", ...LIMITS]);
    const { SqliteMailbox } = await import("./sqlite/mod.ts");
    return await SqliteMailbox.open(
      filePath(url),
      definedOptions({
        ...options,
        name: url.params.get("queue"),
        durability: url.params.get("durability") as "full" | undefined,
        ...limits(url),
      }),
    );
  },

  nats: openNats,
  tls: openNats,

  postgres: openPostgres,
  postgresql: openPostgres,

  redis: openRedis,
  rediss: openRedis,
  "redis+cluster": openRedis,
  "rediss+cluster": openRedis,

  async denokv(url, options) {
    checkParams(url, ["queue", ...LIMITS]);
    const { DenoKvMailbox } = await import("./deno_kv/mod.ts");
    return await DenoKvMailbox.open(
      url.path === "" ? undefined : filePath(url),
      definedOptions({
        ...options,
        name: url.params.get("queue"),
        ...limits(url),
      }),
    );
  },

  async sqs(url, options) {
    checkParams(url, [
      ...["region", "endpoint", "create", "deadLetterQueue", "messageGroupId", "maxBodyBytes"],
    ]);
    const { SqsMailbox } = await import("./sqs/mod.ts");
    return await SqsMailbox.open(
      url.path,
      definedOptions({
        ...options,
        region: url.params.get("region"),
        endpoint: url.params.get("endpoint"),
        create: flagParam(url, "create"),
        deadLetterQueue: url.params.get("deadLetterQueue"),
        messageGroupId: url.params.get("messageGroupId"),
        maxBodyBytes: countParam(url, "maxBodyBytes"),
      }),
    );
  },
};

/** Opens a NATS mailbox. `tls:` is the scheme of NATS servers with TLS. */
async function openNats(url: MailboxUrl, options: MailboxOptions): Promise<Mailbox<unknown>> {
  checkParams(url, ["queue", ...LIMITS]);
  const { NatsMailbox } = await import("./nats/mod.ts");
  return await NatsMailbox.open(
    url.href.replace(/\?.*$/s, ""),
    definedOptions({
      ...options,
      name: url.params.get("queue"),
      ...limits(url),
    }),
  );
}

/** Opens a PostgreSQL mailbox. Passes other parameters, such as `sslmode`, to the client. */
async function openPostgres(url: MailboxUrl, options: MailboxOptions): Promise<Mailbox<unknown>> {
  const ownParams = ["queue", "schema", ...LIMITS];
  const { PostgresMailbox } = await import("./postgres/mod.ts");
  const [address = "", query = ""] = url.href.split(/\?(.*)/s);
  const rest = query.split("&").filter((pair) =>
    pair !== "" && !ownParams.includes(pair.split("=")[0]!)
  );
  return await PostgresMailbox.open(
    [address, ...(rest.length > 0 ? [rest.join("&")] : [])].join("?"),
    definedOptions({
      ...options,
      name: url.params.get("queue"),
      schema: url.params.get("schema"),
      ...limits(url),
    }),
  );
}

async function openRedis(url: MailboxUrl, options: MailboxOptions): Promise<Mailbox<unknown>> {
  checkParams(url, ["queue", ...LIMITS]);
  const { RedisMailbox } = await import("./redis/mod.ts");
  return await RedisMailbox.open(
    url.href.replace(/\?.*$/s, ""),
    definedOptions({
      ...options,
      name: url.params.get("queue"),
      ...limits(url),
    }),
  );
}

/**
 * Opens the mailbox of a URL, for programs that read their engine from the configuration.
 *
 * | URL | mailbox |
 * |---|---|
 * | `memory:`, `memory:orders?maxSize=100` | `InMemoryMailbox` |
 * | `sqlite:./jobs.db?queue=orders&durability=full&maxSize=100` | `SqliteMailbox` |
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
  const { engines, ...mailboxOptions } = options;
  const openers = new Map(Object.entries({ ...BUILT_IN, ...engines }));
  const parsed = parseMailboxUrl(url);
  const open = openers.get(parsed.scheme);
  if (open === undefined) {
    throw new InvalidParameterError(
      `Unknown scheme ${show(parsed.scheme)} of a mailbox URL: expected one of ${
        [...openers.keys()].join(", ")
      }; pass other engines as \`engines\``,
    );
  }
  return await open(parsed, mailboxOptions) as unknown as Mailbox<T, R>;
}

function limits(url: MailboxUrl): Record<typeof LIMITS[number], number | undefined> {
  return {
    maxSize: countParam(url, "maxSize"),
    maxBodyBytes: countParam(url, "maxBodyBytes"),
  };
}

/** Accepts `sqlite:./jobs.db`, `sqlite:/var/jobs.db` and `sqlite:///var/jobs.db`. */
function filePath({ scheme, path }: MailboxUrl): string {
  if (path.startsWith("//") && !path.startsWith("///")) {
    throw new InvalidParameterError(
      `Invalid path ${show(path)} of a ${scheme}: URL: a file has no host; write ` +
        `${scheme}:./jobs.db or ${scheme}:///var/jobs.db`,
    );
  }
  return path.startsWith("///") ? path.slice(2) : path;
}

/** Omits undefined options, which `exactOptionalPropertyTypes` does not allow. */
function definedOptions<O extends object>(options: O): { [K in keyof O]?: NonNullable<O[K]> } {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof O]?: NonNullable<O[K]> };
}
