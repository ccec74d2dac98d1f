import { settlesWithin } from "../../_promises.ts";
import type { Clock } from "../../clock.ts";
import { missingPackages } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { MailboxConnectionError } from "../../mailbox/errors.ts";
import { connectionError, withoutCommand } from "./_errors.ts";
import { BunClient, bunRedis } from "./_bun_client.ts";
import type { RedisClient, RedisSubscriber } from "./redis_client.ts";
import { type ClusterAddress, clusterAddress, placeOf } from "./_server_url.ts";

/** A client of `ioredis` that was made here. */
interface OwnClient extends RedisClient, RedisSubscriber {
  connect(): Promise<void>;
  readonly status: string;
}

interface IoredisModule {
  /** Since version 5.1; before, the class is the module itself. */
  readonly Redis?: MakeClient;
  readonly default: MakeClient & { readonly Cluster: MakeCluster };
}

type MakeClient = new (url: string, options: object) => OwnClient;
type MakeCluster = new (nodes: readonly object[], options: object) => OwnClient;

/** A connection of our own, and how it ends. */
export interface OwnConnection {
  readonly client: RedisClient;
  disconnect(): Promise<void>;
}

/** Not a literal: an optional peer need not be there when imports are checked. */
const MODULE: string = "ioredis";

const CONNECTED: readonly string[] = ["connecting", "connect", "ready"];
const LONGEST_PAUSE_MS = 1_000;
const GOODBYE_MS = 200;
const PUT_OFF_MS = 50;

/** Connects to the server or the cluster at `url`. Bun's own client knows no clusters. */
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
    throw connectionError(`connect to ${placeOf(url)}`, error);
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
  // What `connect` throws does not tell why.
  let refusal: unknown;
  client.on("error", (error) => {
    refusal = withoutCommand(error?.lastNodeError ?? error); // a cluster tells of its nodes
    log.debug("the connection to Redis failed", { error: refusal });
  });
  const disconnect = () => end(client, clock);
  try {
    await within(client.connect(), timeoutMs, clock);
  } catch (error) {
    await disconnect();
    throw connectionError(`connect to ${placeOf(url)}`, refusal ?? error);
  }
  return { client, disconnect };
}

/** How a connection to one server behaves. */
function connectionOptions(timeoutMs: number): object {
  return {
    connectTimeout: timeoutMs,
    // A connection that hears nothing is dead, though nobody may have said so: make a new one. Not before
    // the calls on it have failed by themselves, and do nothing any more should they arrive after all.
    socketTimeout: 2 * timeoutMs,
    disconnectTimeout: GOODBYE_MS,
    retryStrategy: pauseMs,
    // What was under way when the connection broke has failed, and is not done a second time.
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    // After a failover the old master is there, and takes nothing any more.
    reconnectOnError: (error: Error) => error.message.startsWith("READONLY"),
  };
}

function clusterOptions({ options, tls }: ClusterAddress, timeoutMs: number): object {
  return {
    lazyConnect: true,
    redisOptions: { ...connectionOptions(timeoutMs), ...options },
    clusterRetryStrategy: pauseMs,
    slotsRefreshTimeout: timeoutMs,
    // As with one server: what was under way is not done a second time.
    retryDelayOnFailover: 0,
    // While a slot moves, calls are put off, for as long as they may take at the most.
    retryDelayOnTryAgain: PUT_OFF_MS,
    retryDelayOnClusterDown: PUT_OFF_MS,
    maxRedirections: Math.max(16, Math.ceil(timeoutMs / PUT_OFF_MS)),
    // Certificates name hosts, not addresses.
    ...(tls &&
      { dnsLookup: (host: string, found: (e: null, host: string) => void) => found(null, host) }),
  };
}

/** How long to wait before the next attempt to connect. */
function pauseMs(times: number): number {
  return Math.min(50 * times, LONGEST_PAUSE_MS) * (0.5 + Math.random() / 2);
}

async function loadIoredis(): Promise<IoredisModule> {
  try {
    return await import(MODULE) as IoredisModule;
  } catch (error) {
    throw new MailboxConnectionError(
      `${missingPackages("A mailbox on Redis", [MODULE])}, or hand in a client`,
      { cause: error, reason: "client_missing" },
    );
  }
}

async function within(promise: Promise<void>, ms: number, clock: Clock): Promise<void> {
  if (await settlesWithin(promise, ms, clock)) return await promise;
  promise.catch(() => {}); // nobody waits for it any more
  throw new Error(`no answer within ${ms} ms`);
}

async function end(client: OwnClient, clock: Clock): Promise<void> {
  const connected = CONNECTED.includes(client.status);
  const ended = new Promise((resolve) => client.on("end", resolve));
  client.disconnect();
  // Between two attempts to connect there is nothing that could end.
  if (connected) await settlesWithin(ended, 2 * GOODBYE_MS, clock);
}
