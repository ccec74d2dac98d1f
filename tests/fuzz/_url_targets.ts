// URLs of mailboxes and servers, and their passwords, which no error and no log may contain.

import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { mailboxName } from "../../cli/_mailbox.ts";
import { toCliError } from "../../cli/_errors.ts";
import { healthUrl } from "../../cli/_health.ts";
import { filePath, parseMailboxUrl, redactUrl } from "../../src/engines/_kit/mailbox_url.ts";
import { checkMailboxUrl } from "../../src/engines/open_mailbox.ts";
import { serverOf } from "../../src/engines/postgres/client.ts";
import { checkServerUrl } from "../../src/engines/redis/_connect.ts";
import { ENGINES } from "../../src/engines/registry.ts";
import { parseTarget } from "../../src/engines/sqs/_queue.ts";
import { syncOutcomeOf } from "./_decoding.ts";
import type { Target } from "./_fuzz.ts";
import { mutated, sometimesLong, text } from "./_inputs.ts";

const schemes = fc.constantFrom(...ENGINES.flatMap(({ schemes }) => schemes));
const parameter = fc.constantFrom(...ENGINES.flatMap(({ parameters }) => parameters), "sslmode");
const params = fc.array(
  fc.tuple(parameter, fc.oneof(fc.nat().map(String), text, fc.constant("true"))),
  {
    maxLength: 3,
  },
);
const valid = fc.oneof(
  fc.constantFrom(...ENGINES.flatMap(({ help }) => help)),
  fc.tuple(
    schemes,
    fc.constantFrom("", "//host:1", "//me:pass@host,other:2", "./a.db", "orders"),
    params,
  )
    .map(([scheme, path, all]) => {
      const query = all.map(([key, value]) =>
        `${key}=${encodeURIComponent(value.replace(/\p{Cs}/gu, ""))}`
      );
      return `${scheme}:${path}${all.length > 0 ? "?" : ""}${query.join("&")}`;
    }),
);
const urls = sometimesLong(
  mutated(valid),
  "sqlite:",
  "redis+cluster://",
  "redis://a?",
  "sqs:https://",
);
const REFUSED = {
  names: ["InvalidParameterError"],
  text:
    /(expected|; write|must be (?:followed|encoded)|occurs twice|cannot be combined|has only|for \S+; put)/,
};

/** A URL has a queue, or is refused. */
export const mailboxUrls: Target<string> = {
  name: "mailbox_url",
  inputs: urls,
  holds: (url) => {
    const name = syncOutcomeOf(() => checkMailboxUrl(url), REFUSED);
    const parsed = syncOutcomeOf(() => parseMailboxUrl(url), REFUSED);
    if ("value" in name) assert(/^[\w.:@/-]{1,180}(\.dead)*$/.test(name.value), name.value);
    if ("value" in parsed) syncOutcomeOf(() => filePath(parsed.value), REFUSED);
    syncOutcomeOf(() => mailboxName(url), { names: ["InvalidParameterError", "CliError"] });
    assertEquals(typeof redactUrl(url), "string");
  },
};

/** What was encoded as the standard of URLs says is decoded unchanged. */
export const urlParts: Target<
  { readonly path: string; readonly all: readonly (readonly [string, string])[] }
> = {
  name: "url_parts",
  inputs: fc.record({
    path: text.map((it) => it.replace(/\p{Cs}/gu, "")),
    all: fc.uniqueArray(
      fc.tuple(text, text).map((it) =>
        it.map((part) => part.replace(/\p{Cs}/gu, "")) as [string, string]
      ),
      {
        selector: ([key]) => key,
        maxLength: 3,
      },
    ),
  }),
  holds: ({ path, all }) => {
    const query = all.map((pair) => pair.map(encodeURIComponent).join("="));
    const parsed = parseMailboxUrl(`memory:${encodeURIComponent(path)}?${query.join("&")}`);
    assertEquals([parsed.path, [...parsed.params]], [path, all.map((it) => [...it])]);
  },
};

/** The URLs of servers that engines take besides mailbox URLs. */
export const serverUrls: Target<string> = {
  name: "server_url",
  inputs: fc.oneof(
    urls,
    mutated(fc.constantFrom(
      "redis+cluster://me:p%20w@[::1]:1,other/0?db=1",
      "https://sqs.eu-west-1.amazonaws.com/123/orders.fifo",
      "postgres://me:pw@host:1/shop?sslmode=require",
      "http://localhost:8080/status",
    )),
  ),
  holds: (url) => {
    syncOutcomeOf(() => checkServerUrl(url), REFUSED);
    syncOutcomeOf(() => serverOf(url, 1_000), REFUSED);
    syncOutcomeOf(() => parseTarget(url), REFUSED);
    syncOutcomeOf(() => parseTarget("orders", undefined, url), REFUSED);
    syncOutcomeOf(() => healthUrl(url), { names: ["CliError"] });
  },
};

const SECRET = "hunter2";
const part = fc.string({
  unit: fc.constantFrom(..."abc/?#@:%&=+;,.- '\"[]\\", "%40", "%3a"),
  maxLength: 5,
});

/** No text for people contains the password of a URL, also where the password is not encoded. */
export const passwords = (redact: (url: string) => string = redactUrl): Target<{
  readonly start: string;
  readonly before: string;
  readonly after: string;
  readonly rest: string;
}> => ({
  name: "url_password",
  inputs: fc.record({
    start: fc.tuple(
      fc.oneof(schemes, fc.constantFrom("sqs:https", "http", "https", "x")),
      fc.constantFrom("me:", ":", "me"),
    ).map((it) => it.join("://")),
    before: part,
    after: part,
    rest: fc.oneof(
      fc.constantFrom(
        "host",
        "host:1/0?queue=orders",
        "host/?queue=a&maxSize=x",
        "a:1,b:2?x=1",
        "[::1]/shop",
      ),
      part.map((it) => `host/${it}`),
    ),
  }),
  holds: ({ start, before, after, rest }) => {
    const url = `${start}${before}${SECRET}${after}@${rest}`;
    const uses = [
      checkMailboxUrl,
      checkServerUrl,
      parseTarget,
      mailboxName,
      (url: string) => healthUrl(url),
      (url: string) => filePath(parseMailboxUrl(url)),
      (url: string) => serverOf(url, 1_000).name,
    ];
    assert(!redact(url).includes(SECRET), `redacted to ${redact(url)}`);
    for (const use of uses) {
      const shown = shownBy(() => use(url));
      assert(!shown.includes(SECRET), `${use.name || "a use"} shows ${shown} for ${url}`);
    }
  },
});

/** Returns the text that a use of a URL returns, or that the command prints for its error. */
function shownBy(use: () => unknown): string {
  try {
    const result = use();
    return typeof result === "string" && !result.includes("://") ? result : "";
  } catch (error) {
    return `${toCliError(error).message} ${error instanceof Error ? error.stack : ""}`;
  }
}
