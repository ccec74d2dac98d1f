import { usageError } from "./_errors.ts";

/** What people copy with the address of a health app: what it answers at. */
const ITS_PATHS = /\/(status|metrics|drain|resume|health\/(live|ready))?\/?$/;

/**
 * The address of a health app, without a slash at its end: `http://host:8080`, `https://host/base`,
 * `host:8080`, `:8080`, or that of one of its paths.
 */
export function healthUrl(text: string): string {
  const given = /^https?:\/\//i.test(text)
    ? text
    : `http://${text.replace(/^(?=:\d)/, "localhost")}`;
  const url = URL.canParse(given) ? new URL(given) : undefined;
  // "redis://host" becomes a host called redis, without a port.
  if (
    url === undefined || url.hostname === "" ||
    /^[a-z][a-z0-9+.-]*:\/\//i.test(text) && given !== text
  ) {
    throw usageError(`${text} is no address of a health app: write http://host:8080 or host:8080`);
  }
  if (url.username !== "" || url.password !== "") {
    throw usageError(
      "A user or password in the address is not sent: use --token where one is needed",
    );
  }
  return `${url.origin}${url.pathname.replace(ITS_PATHS, "")}`;
}
