import { show } from "../../_checks.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";

/** A parsed mailbox URL: `scheme:path?key=value&…`. */
export interface MailboxUrl {
  /** The original URL. It may contain a password: do not print it. */
  readonly href: string;
  /** The scheme in lower case. It selects the engine. */
  readonly scheme: string;
  /** The decoded text between the scheme and the parameters. */
  readonly path: string;
  /** The decoded parameters. */
  readonly params: ReadonlyMap<string, string>;
}

/** Parses a mailbox URL. */
export function parseMailboxUrl(url: string): MailboxUrl {
  const [, scheme, path, query = ""] =
    /^([a-z][a-z0-9+.-]*):([^?#]*)(?:\?([^#]*))?$/i.exec(String(url)) ?? [];
  // deno-lint-ignore no-control-regex -- the pattern refuses control characters
  if (scheme === undefined || path === undefined || /[\0-\x1f\x7f]/.test(url)) {
    throw malformed(url, 'expected "<scheme>:<path>?<key>=<value>", without control characters');
  }
  const params = new Map<string, string>();
  for (const pair of query.split("&").filter(Boolean)) {
    const [key = "", value = ""] = pair.split(/=(.*)/s).map((text) => decode(url, text));
    if (params.has(key)) throw malformed(url, `${showPart(url, key)} occurs twice`);
    params.set(key, value);
  }
  return { href: url, scheme: scheme.toLowerCase(), path: decode(url, path), params };
}

/** Refuses parameters that the engine does not know, so that a typing error is reported. */
export function checkParams(url: MailboxUrl, known: readonly string[]): void {
  for (const key of url.params.keys()) {
    if (known.includes(key)) continue;
    throw new InvalidParameterError(
      `Unknown parameter ${showPart(url.href, key)} of a ${url.scheme}: URL: expected one of ` +
        known.join(", "),
    );
  }
}

/** Returns the last part of a path, which is the name of a queue. A path that is a URL may have a login. */
export function nameInPath({ href, path }: MailboxUrl): string {
  if (!path.includes("//")) return path.split("/").at(-1)!;
  const shown = redactUrl(href);
  if (!shown.endsWith("…")) return decode(href, shown).split("/").at(-1)!;
  throw malformed(href, "a login must be encoded: write %40 for @, %2F for / and %3F for ?");
}

/** Returns a parameter as a whole number; undefined when it is missing. */
export function countParam(url: MailboxUrl, key: string): number | undefined {
  const text = url.params.get(key);
  if (text === undefined) return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  const got = showPart(url.href, text);
  throw new InvalidParameterError(`Invalid ${key}: expected a whole number, got ${got}`);
}

/** Returns a parameter as a boolean; undefined when it is missing. */
export function flagParam(url: MailboxUrl, key: string): boolean | undefined {
  const text = url.params.get(key);
  if (text === undefined) return undefined;
  if (text === "true" || text === "false") return text === "true";
  const got = showPart(url.href, text);
  throw new InvalidParameterError(`Invalid ${key}: expected true or false, got ${got}`);
}

/** Accepts `sqlite:./jobs.db`, `sqlite:/var/jobs.db` and `sqlite:///var/jobs.db`. */
export function filePath({ href, scheme, path }: MailboxUrl): string {
  if (path.startsWith("//") && !path.startsWith("///")) {
    throw new InvalidParameterError(
      `Invalid path ${show(redactUrl(href))} of a ${scheme}: URL: a file has no host; write ` +
        `${scheme}:./jobs.db or ${scheme}:///var/jobs.db`,
    );
  }
  return path.startsWith("///") ? path.slice(2) : path;
}

/** Returns the URL without these parameters, or without all. */
export function withoutParameters({ href }: MailboxUrl, names?: readonly string[]): string {
  const [address = "", query = ""] = href.split(/\?(.*)/s);
  if (names === undefined) return address;
  const rest = query.split("&").filter((pair) => {
    return pair !== "" && !names.includes(pair.split("=")[0]!);
  });
  return rest.length === 0 ? address : `${address}?${rest.join("&")}`;
}

/** Returns a parameter that is one of `allowed`; undefined when it is missing. */
export function oneOfParam<T extends string>(
  url: MailboxUrl,
  key: string,
  allowed: readonly T[],
): T | undefined {
  const text = url.params.get(key);
  if (text === undefined || (allowed as readonly string[]).includes(text)) return text as T;
  throw new InvalidParameterError(
    `Invalid ${key}: expected one of ${allowed.map(show).join(", ")}, got ${
      showPart(url.href, text)
    }`,
  );
}

/**
 * Returns a URL for errors and logs: without user, password and parameters. Of a URL whose password is not
 * encoded, so that its end is uncertain, it returns the scheme only.
 */
export function redactUrl(url: string): string {
  const [, scheme = "", authority = "", rest = ""] =
    /^((?:[a-z][a-z0-9+.-]*:)*\/\/)?([^/?#]*)(.*)$/is.exec(url) ?? [];
  if (rest.includes("@")) return `${scheme}…`;
  return scheme + authority.replace(/^.*@/s, "") + rest.replace(/[?#].*$/s, "");
}

function decode(url: string, text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw malformed(url, "a % must be followed by two hex digits; write %25 for a percent sign");
  }
}

/** Formats a part of a URL for an error. It may be the password, where that is not encoded. */
function showPart(url: string, part: string): string {
  const [, ...host] = url.split("//");
  const rest = host.join("//");
  const end = rest.search(/[/?#]/);
  return end >= 0 && rest.includes("@", end) ? "…" : show(part);
}

function malformed(url: unknown, why: string): InvalidParameterError {
  const shown = typeof url === "string" ? redactUrl(url) : url;
  return new InvalidParameterError(`Malformed mailbox URL ${show(shown)}: ${why}`);
}
