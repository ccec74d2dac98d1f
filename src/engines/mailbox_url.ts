import { show } from "../_checks.ts";
import { InvalidParameterError } from "../mailbox/errors.ts";

/** A URL taken apart: `scheme:path?key=value&…`. */
export interface MailboxUrl {
  /** As it was given. It may carry a password: do not print it. */
  readonly href: string;
  /** What chooses the engine, in lower case. */
  readonly scheme: string;
  /** What stands between the scheme and the parameters, decoded. */
  readonly path: string;
  /** The parameters, decoded. */
  readonly params: ReadonlyMap<string, string>;
}

/** Takes a URL apart. */
export function parseMailboxUrl(url: string): MailboxUrl {
  const [, scheme, path, query = ""] =
    /^([a-z][a-z0-9+.-]*):([^?#]*)(?:\?([^#]*))?$/i.exec(String(url)) ?? [];
  // deno-lint-ignore no-control-regex -- these are what is refused
  if (scheme === undefined || path === undefined || /[\0-\x1f\x7f]/.test(url)) {
    throw malformed(url, 'expected "<scheme>:<path>?<key>=<value>", without control characters');
  }
  const params = new Map<string, string>();
  for (const pair of query.split("&").filter(Boolean)) {
    const [key = "", value = ""] = pair.split(/=(.*)/s).map((text) => decode(url, text));
    if (params.has(key)) throw malformed(url, `${show(key)} is there twice`);
    params.set(key, value);
  }
  return { href: url, scheme: scheme.toLowerCase(), path: decode(url, path), params };
}

/** Refuses parameters that an engine does not know: a typing error must not go unnoticed. */
export function checkParams(url: MailboxUrl, known: readonly string[]): void {
  for (const key of url.params.keys()) {
    if (known.includes(key)) continue;
    throw new InvalidParameterError(
      `Unknown parameter ${show(key)} of a ${url.scheme}: URL: expected one of ${known.join(", ")}`,
    );
  }
}

/** A parameter that is a whole number; undefined when it is not there. */
export function countParam(url: MailboxUrl, key: string): number | undefined {
  const text = url.params.get(key);
  if (text === undefined) return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new InvalidParameterError(`Invalid ${key}: expected a whole number, got ${show(text)}`);
}

/** A parameter that is `true` or `false`; undefined when it is not there. */
export function flagParam(url: MailboxUrl, key: string): boolean | undefined {
  const text = url.params.get(key);
  if (text === undefined) return undefined;
  if (text === "true" || text === "false") return text === "true";
  throw new InvalidParameterError(`Invalid ${key}: expected true or false, got ${show(text)}`);
}

function decode(url: string, text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw malformed(url, "it has a % that encodes nothing; write %25");
  }
}

function malformed(url: unknown, why: string): InvalidParameterError {
  const shown = typeof url === "string" ? url.replace(/\/\/[^/]*@/, "//***@") : url;
  return new InvalidParameterError(`Malformed mailbox URL ${show(shown)}: ${why}`);
}
