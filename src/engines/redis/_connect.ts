import { show } from "../../_checks.ts";
import { settlesWithin } from "../../_promises.ts";
import type { Clock } from "../../clock.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";
import { loadClient } from "../_kit/calls.ts";
import { redactUrl } from "../_kit/mailbox_url.ts";
import { BunClient, bunRedis } from "./_bun_client.ts";
import {
  connectionError,
  type ConnectionOptions,
  type RedisClient,
  type RedisSubscriber,
  withoutCommand,
} from "./redis_client.ts";

/** A connection that this package opened and has to close. */
export interface OwnConnection {
  readonly client: RedisClient;
  disconnect(): Promise<void>;
}

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

/** A variable, not a literal, because tools that check imports must not require an optional peer. */
const MODULE: string = "ioredis";

const CONNECTED: readonly string[] = ["connecting", "connect", "ready"];
const MAX_RECONNECT_DELAY_MS = 1_000;
const DISCONNECT_TIMEOUT_MS = 200;
const CLUSTER_RETRY_DELAY_MS = 50;

/** Connects to the server or the cluster at `url`. Bun's built-in client does not support clusters. */
export async function connect(url: string, options: ConnectionOptions): Promise<OwnConnection> {
  const cluster = clusterAddress(url);
  const make = cluster === undefined ? await bunRedis(url) : undefined;
  if (make === undefined) return await connectIoredis(url, cluster, options);
  const client = new BunClient(() => make(url, options.callTimeoutMs), options);
  try {
    await client.connect();
  } catch (error) {
    client.disconnect();
    throw connectionError(`connect to ${redactUrl(url)}`, error);
  }
  return { client, disconnect: () => Promise.resolve(client.disconnect()) };
}

async function connectIoredis(
  url: string,
  cluster: ClusterAddress | undefined,
  options: ConnectionOptions,
): Promise<OwnConnection> {
  const { clock, log, callTimeoutMs } = options;
  const load = () => import(MODULE);
  const ioredis = await loadClient<IoredisModule>("A mailbox on Redis", MODULE, load);
  const perServer = connectionOptions(options);
  const client = cluster === undefined
    ? new (ioredis.Redis ?? ioredis.default)(url, { ...perServer, lazyConnect: true })
    : new ioredis.default.Cluster(cluster.nodes, clusterOptions(cluster, perServer, callTimeoutMs));
  // The error that `connect` throws does not contain the reason.
  let reason: unknown;
  client.on("error", (error) => {
    reason = withoutCommand(error?.lastNodeError ?? error); // a cluster reports the error of a node
    log.debug("the connection to Redis failed", { error: reason });
  });
  const disconnect = () => end(client, clock);
  try {
    await within(client.connect(), callTimeoutMs, clock);
  } catch (error) {
    await disconnect();
    throw connectionError(`connect to ${redactUrl(url)}`, reason ?? error);
  }
  return { client, disconnect };
}

/** Returns the options of a connection to one server. */
function connectionOptions({ callTimeoutMs, random }: ConnectionOptions) {
  return {
    connectTimeout: callTimeoutMs,
    // Replaces a connection that has been silent for twice the call timeout. By then its calls have
    // failed, and the scripts refuse to run them should they still arrive.
    socketTimeout: 2 * callTimeoutMs,
    disconnectTimeout: DISCONNECT_TIMEOUT_MS,
    retryStrategy: (times: number) => {
      return Math.min(50 * times, MAX_RECONNECT_DELAY_MS) * (0.5 + random.number() / 2);
    },
    // Calls that were pending when the connection broke have failed and must not run a second time.
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    // After a failover the old primary stays reachable, but read-only.
    reconnectOnError: (error: Error) => error.message.startsWith("READONLY"),
  };
}

function clusterOptions(
  { options, tls }: ClusterAddress,
  perServer: ReturnType<typeof connectionOptions>,
  timeoutMs: number,
): object {
  return {
    lazyConnect: true,
    redisOptions: { ...perServer, ...options },
    clusterRetryStrategy: perServer.retryStrategy,
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

/** The nodes and the client options in the URL of a cluster. */
interface ClusterAddress {
  /** The nodes from which the client discovers the others. */
  readonly nodes: readonly { readonly host: string; readonly port: number }[];
  /** Client options for each connection. */
  readonly options: Readonly<Record<string, unknown>>;
  readonly tls: boolean;
}

/** Throws unless `url` is the URL of a server or a cluster. */
export function checkServerUrl(url: string): string {
  if (!/^rediss?(\+cluster)?:\/\/./i.test(url)) {
    throw invalid(
      url,
      "expected it to start with redis://, rediss://, redis+cluster:// or rediss+cluster://",
    );
  }
  clusterAddress(url);
  return url;
}

/** Parses the URL of a cluster. Returns undefined for the URL of a single server. */
function clusterAddress(url: string): ClusterAddress | undefined {
  const [, tls, user, hosts = "", database = "", query = ""] =
    /^redis(s?)\+cluster:\/\/(?:(.*)@)?([^/?]*)\/?([^?]*)(?:\?(.*))?$/is.exec(url) ?? [];
  if (tls === undefined) return undefined;
  if (!["", "0"].includes(database)) throw invalid(url, "a cluster has only database 0");
  const nodes = hosts.split(",").map((node) => {
    const [, host = "", port = "6379"] = /^(\[[^\]]+\]|[^:]+)(?::(\d+))?$/.exec(node) ?? [];
    if (host === "" || Number(port) > 65_535) {
      throw invalid(
        url,
        "expected one or more nodes, such as redis+cluster://host:6379,other:6379",
      );
    }
    return { host: host.replace(/^\[|\]$/g, ""), port: Number(port) };
  });
  const [username = "", password] = (user ?? "").split(/:(.*)/s).map((text) => decode(url, text));
  return {
    nodes,
    tls: tls !== "",
    options: {
      ...Object.fromEntries(new URLSearchParams(query)),
      ...(username === "" ? {} : { username }),
      ...(password ? { password } : {}),
      ...(tls === "" ? {} : { tls: {} }),
    },
  };
}

function decode(url: string, text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw invalid(
      url,
      "expected two hex digits after each % of the login; write %25 for a percent sign",
    );
  }
}

function invalid(url: string, why: string): InvalidParameterError {
  return new InvalidParameterError(`Invalid URL: ${why}, got ${show(redactUrl(url))}`);
}
