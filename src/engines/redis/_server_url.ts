import { show } from "../../_checks.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";

/** The nodes and the client options in the URL of a cluster. */
export interface ClusterAddress {
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
export function clusterAddress(url: string): ClusterAddress | undefined {
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
  const [username = "", password] = (user ?? "").split(/:(.*)/s).map(decodeURIComponent);
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

/** Returns the URL without user, password and parameters. */
export function withoutCredentials(url: string): string {
  return url.replace(/\/\/.*@/s, "//").replace(/\?.*$/s, "");
}

function invalid(url: string, why: string): InvalidParameterError {
  const shown = url.replace(/\/\/.*@/s, "//…@");
  return new InvalidParameterError(`Invalid URL: ${why}, got ${show(shown)}`);
}
