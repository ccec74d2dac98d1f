import { show } from "../../_checks.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";

/** Which queue is meant, and where. */
export interface Target {
  readonly name: string;
  /** Not known when only the name was given. */
  readonly url?: string;
  readonly region?: string;
  readonly endpoint?: string;
}

/** Takes a queue's URL or its name. */
export function targetOf(queue: string, region?: string, endpoint?: string): Target {
  const place = {
    ...(region === undefined ? {} : { region }),
    ...(endpoint === undefined ? {} : { endpoint: checkPlace("endpoint", endpoint).origin }),
  };
  if (!/^https?:/.test(queue)) return { name: checkName(queue), ...place };
  const { origin, pathname, hostname } = checkPlace("queue URL", queue);
  const name = checkName(pathname.split("/").at(-1)!);
  const here = /(^|\.)amazonaws\.com(\.cn)?$/.test(hostname)
    ? regionOf(hostname)
    : { endpoint: origin };
  return { name, url: queue, ...here, ...place };
}

/** Where the dead letters of a queue are, unless told. */
export function deadLetterName(name: string): string {
  return name.replace(/(\.fifo)?$/, "-dead$1");
}

/** The URL of another queue of the same account. */
export function urlBeside(url: string, name: string): string {
  return url.replace(/[^/]*$/, name);
}

/** Refuses what is not the name of a queue. */
export function checkName(name: string): string {
  if (typeof name === "string" && /^[\w-]{1,80}$/.test(name.replace(/\.fifo$/, ""))) {
    if (name.length <= 80) return name;
  }
  throw new InvalidParameterError(
    `Invalid queue: expected a URL, or a name of 1 to 80 letters, digits, - and _ that may end in ` +
      `.fifo, got ${show(name)}`,
  );
}

function checkPlace(what: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new InvalidParameterError(
      `Invalid ${what}: expected one that begins with https:// or http://, got ${
        show(text.replace(/.*@/s, "…@"))
      }`,
    );
  }
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    throw new InvalidParameterError(
      `Invalid ${what}: expected one without credentials and parameters, for ${url.host}; ` +
        "credentials come from the environment, or with a client of yours",
    );
  }
  return url;
}

/** `sqs.eu-west-1.amazonaws.com`, and `eu-west-1.queue.amazonaws.com` as it was once. */
function regionOf(hostname: string): { readonly region?: string } {
  const region = /^sqs(?:-fips)?\.([\w-]+)\.amazonaws/.exec(hostname)?.[1] ??
    /^([\w-]+)\.queue\.amazonaws/.exec(hostname)?.[1];
  return region === undefined ? {} : { region };
}
