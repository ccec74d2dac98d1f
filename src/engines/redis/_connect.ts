import { settlesWithin } from "../../_promises.ts";
import type { Clock } from "../../clock.ts";
import { missingPackages } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { MailboxConnectionError } from "../../mailbox/errors.ts";
import { connectionError, withoutCommand } from "./_errors.ts";
import { BunClient, bunRedis } from "./_bun_client.ts";
import type { RedisClient, RedisSubscriber } from "./redis_client.ts";
import { type ClusterAddress, clusterAddress, withoutCredentials } from "./_server_url.ts";

/** A client of `ioredis` that this module creates. */
interface OwnClient extends RedisClient, RedisSubscriber {
  connect(): Promise<void>;
  readonly status: string;
}

interface IoredisModule {
  /** Exported since version 5.1; before that, the default export is the class. */
  readonly Redis?: MakeClient;
  readonly default: MakeClient & { readonly Cluster: MakeCluster };
}

type MakeClient = new (url: string, options: object) => OwnClient;
type MakeCluster = new (nodes: readonly object[], options: object) => OwnClient;

/** A connection that this package opened and has to close. */
export interface OwnConnection {
  readonly client: RedisClient;
  disconnect(): Promise<void>;
}

/** A variable, not a literal, because tools that check imports must not require an optional peer. */
const MODULE: string = "ioredis";

const CONNECTED: readonly string[] = ["connecting", "connect", "ready"];
const MAX_RECONNECT_DELAY_MS = 1_000;
const DISCONNECT_TIMEOUT_MS = 200;
const CLUSTER_RETRY_DELAY_MS = 50;

/** Connects to the server or the cluster at `url`. Bun's built-in client does not support clusters. */
export async function connect(
  url: string,
  timeoutMs: number,
  clock: Clock,
  log: Log,
): Promise<OwnConnection> {
  const make = clusterAddress(url) === undefined ? await bunRedis(url) : undefined;
  if (make === undefined) return await connectIoredis(url, timeoutMs, clock, log);
  const client = new BunClient(() => make(url, timeoutMs), timeoutMs, clock, log);
  try {
    await client.connect();
  } catch (error) {
    client.disconnect();
    throw connectionError(`connect to ${withoutCredentials(url)}`, error);
  }
  return { client, disconnect: () => Promise.resolve(client.disconnect()) };
}

async function connectIoredis(
  url: string,
  timeoutMs: number,
  clock: Clock,
  log: Log,
): Promise<OwnConnection> {
  const ioredis = await loadIoredis();
  const cluster = clusterAddress(url);
  const client = cluster === undefined
    ? new (ioredis.Redis ?? ioredis.default)(url, {
      ...connectionOptions(timeoutMs),
      lazyConnect: true,
    })
    : new ioredis.default.Cluster(cluster.nodes, clusterOptions(cluster, timeoutMs));
  // The error that `connect` throws does not contain the reason.
  let reason: unknown;
  client.on("error", (error) => {
    reason = withoutCommand(error?.lastNodeError ?? error); // a cluster reports the error of a node
    log.debug("the connection to Redis failed", { error: reason });
  });
  const disconnect = () => end(client, clock);
  try {
    await within(client.connect(), timeoutMs, clock);
  } catch (error) {
    await disconnect();
    throw connectionError(`connect to ${withoutCredentials(url)}`, reason ?? error);
  }
  return { client, disconnect };
}

/** Returns the options of a connection to one server. */
function connectionOptions(timeoutMs: number): object {
  return {
    connectTimeout: timeoutMs,
    // Replaces a connection that has been silent for twice the call timeout. By then its calls have
    // failed, and the scripts refuse to run them should they still arrive.
    socketTimeout: 2 * timeoutMs,
    disconnectTimeout: DISCONNECT_TIMEOUT_MS,
    retryStrategy: reconnectDelayMs,
    // Calls that were pending when the connection broke have failed and must not run a second time.
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    // After a failover the old primary stays reachable, but read-only.
    reconnectOnError: (error: Error) => error.message.startsWith("READONLY"),
  };
}

function clusterOptions({ options, tls }: ClusterAddress, timeoutMs: number): object {
  return {
    lazyConnect: true,
    redisOptions: { ...connectionOptions(timeoutMs), ...options },
    clusterRetryStrategy: reconnectDelayMs,
    slotsRefreshTimeout: timeoutMs,
    // As with one server, failed calls must not run a second time.
    retryDelayOnFailover: 0,
    // While a slot moves, the client retries a call for as long as its timeout allows.
    retryDelayOnTryAgain: CLUSTER_RETRY_DELAY_MS,
    retryDelayOnClusterDown: CLUSTER_RETRY_DELAY_MS,
    maxRedirections: Math.max(16, Math.ceil(timeoutMs / CLUSTER_RETRY_DELAY_MS)),
    // Certificates contain host names, not IP addresses.
    ...(tls &&
      { dnsLookup: (host: string, found: (e: null, host: string) => void) => found(null, host) }),
  };
}

/** Returns the delay before the next attempt to connect, in milliseconds. */
function reconnectDelayMs(times: number): number {
  return Math.min(50 * times, MAX_RECONNECT_DELAY_MS) * (0.5 + Math.random() / 2);
}

async function loadIoredis(): Promise<IoredisModule> {
  try {
    return await import(MODULE) as IoredisModule;
  } catch (error) {
    throw new MailboxConnectionError(
      `${missingPackages("A mailbox on Redis", [MODULE])}, or pass a client`,
      { cause: error, reason: "client_missing" },
    );
  }
}

async function within(promise: Promise<void>, ms: number, clock: Clock): Promise<void> {
  if (await settlesWithin(promise, ms, clock)) return await promise;
  promise.catch(() => {}); // the timeout error below replaces a late one
  throw new Error(`no answer within ${ms} ms`);
}

async function end(client: OwnClient, clock: Clock): Promise<void> {
  const connected = CONNECTED.includes(client.status);
  const ended = new Promise((resolve) => client.on("end", resolve));
  client.disconnect();
  // Between two attempts to connect there is no connection, and no `end` event follows.
  if (connected) await settlesWithin(ended, 2 * DISCONNECT_TIMEOUT_MS, clock);
}
