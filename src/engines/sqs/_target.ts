import { show } from "../../_checks.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";

/** A queue and where to find it. */
export interface Target {
  readonly name: string;
  /** Undefined when the caller passed a name. */
  readonly url?: string;
  readonly region?: string;
  readonly endpoint?: string;
}

/** Parses a queue's URL or name. */
export function parseTarget(queue: string, region?: string, endpoint?: string): Target {
  const location = {
    ...(region === undefined ? {} : { region }),
    ...(endpoint === undefined ? {} : { endpoint: checkHttpUrl("endpoint", endpoint).origin }),
  };
  if (!/^https?:/.test(queue)) return { name: checkName(queue), ...location };
  const { origin, pathname, hostname } = checkHttpUrl("queue URL", queue);
  const name = checkName(pathname.split("/").at(-1)!);
  const found = /(^|\.)amazonaws\.com(\.cn)?$/.test(hostname)
    ? regionOf(hostname)
    : { endpoint: origin };
  return { name, url: queue, ...found, ...location };
}

/** Returns the default name of the dead-letter queue. */
export function deadLetterName(name: string): string {
  return name.replace(/(\.fifo)?$/, "-dead$1");
}

/** Returns the URL of another queue in the same account. */
export function siblingUrl(url: string, name: string): string {
  return url.replace(/[^/]*$/, name);
}

/** Refuses an invalid queue name. */
export function checkName(name: string): string {
  if (typeof name === "string" && /^[\w-]{1,80}$/.test(name.replace(/\.fifo$/, ""))) {
    if (name.length <= 80) return name;
  }
  throw new InvalidParameterError(
    `Invalid queue: expected a URL, or a name of 1 to 80 letters, digits, - and _ that may end in ` +
      `.fifo, got ${show(name)}`,
  );
}

function checkHttpUrl(what: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new InvalidParameterError(
      `Invalid ${what}: expected a URL that starts with https:// or http://, got ${
        show(text.replace(/.*@/s, "…@"))
      }`,
    );
  }
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    throw new InvalidParameterError(
      `Invalid ${what}: expected a URL without credentials and parameters, for ${url.host}; ` +
        "put credentials into the environment, or pass a client",
    );
  }
  return url;
}

/** Parses `sqs.eu-west-1.amazonaws.com` and the old form `eu-west-1.queue.amazonaws.com`. */
function regionOf(hostname: string): { readonly region?: string } {
  const region = /^sqs(?:-fips)?\.([\w-]+)\.amazonaws/.exec(hostname)?.[1] ??
    /^([\w-]+)\.queue\.amazonaws/.exec(hostname)?.[1];
  return region === undefined ? {} : { region };
}
