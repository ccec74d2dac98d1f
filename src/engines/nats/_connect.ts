import { settlesWithin } from "../../_promises.ts";
import type { Clock } from "../../clock.ts";
import { missingPackages } from "../../errors.ts";
import { MailboxConnectionError } from "../../mailbox/errors.ts";
import { connectionError } from "./_errors.ts";
import type { NatsConnection } from "./nats_connection.ts";

interface NatsModule {
  connect(options: object): Promise<NatsConnection>;
}

/** Not a literal, because type checks must pass without the optional peer dependency. */
const MODULE: string = "@nats-io/transport-node";

const LONGEST_PAUSE_MS = 1_000;

/** Connects to one of the hosts in a URL. Commas separate several hosts. */
export async function connect(
  url: string,
  timeoutMs: number,
  clock: Clock,
): Promise<NatsConnection> {
  const { connect } = await loadNats();
  const { tls, hosts, ...credentials } = parseUrl(url);
  const connecting = connect({
    ...credentials,
    ...(tls ? { tls: {} } : {}),
    servers: hosts,
    name: "lastcall",
    timeout: timeoutMs,
    maxReconnectAttempts: -1,
    // A worker keeps reconnecting while the server refuses its credentials.
    ignoreAuthErrorAbort: true,
    reconnectTimeWait: LONGEST_PAUSE_MS / 4,
    reconnectJitter: LONGEST_PAUSE_MS / 4,
    // Pings detect a dead connection that no side has closed.
    pingInterval: 2 * timeoutMs,
    maxPingOut: 2,
  });
  try {
    return await within(connecting, timeoutMs, clock);
  } catch (error) {
    throw connectionError(`connect to ${hosts.join(", ")}`, error);
  }
}

async function loadNats(): Promise<NatsModule> {
  try {
    return await import(MODULE) as NatsModule;
  } catch (error) {
    throw new MailboxConnectionError(
      `${missingPackages("A mailbox on NATS", [MODULE])}, or pass a connection`,
      { cause: error, reason: "client_missing" },
    );
  }
}

async function within(
  connecting: Promise<NatsConnection>,
  ms: number,
  clock: Clock,
): Promise<NatsConnection> {
  if (await settlesWithin(connecting, ms, clock)) return await connecting;
  // Closes a connection that is established after the timeout.
  connecting.then((connection) => connection.close()).catch(() => {});
  throw new Error(`no answer within ${ms} ms`);
}

interface Parts {
  readonly tls: boolean;
  readonly hosts: readonly string[];
  readonly user?: string;
  readonly pass?: string;
  readonly token?: string;
}

/** Parses `nats://user:password@host:port,host:port`. A user without a password is a token. */
function parseUrl(url: string): Parts {
  const [, scheme, login, places = ""] = /^(\w+):\/\/(?:(.*)@)?([^/?#]*)/.exec(url)!;
  const parts = { tls: scheme === "tls", hosts: places.split(",") };
  if (login === undefined) return parts;
  const [user = "", pass] = login.split(/:(.*)/s).map(decodeURIComponent);
  return pass === undefined ? { ...parts, token: user } : { ...parts, user, pass };
}
