import { it } from "node:test";
import { assertEquals } from "@std/assert";
import { redactUrl } from "../../src/engines/_kit/mailbox_url.ts";

// deno-fmt-ignore -- a table: a URL and what errors and logs show
const urls: readonly (readonly [url: string, shown: string])[] = [
  ["redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"],
  ["redis://me:secret@host:6379/0?queue=orders#x", "redis://host:6379/0"],
  ["redis+cluster://me:secret@a:1,b:2?queue=orders", "redis+cluster://a:1,b:2"],
  ["postgres://me:sec@ret@host/db", "postgres://host/db"],
  ["postgres://host/db?password=secret", "postgres://host/db"],
  ["me:secret@host:4222", "host:4222"],
  ["postgres://me:a/secret@host/db", "postgres://…"],
  ["postgres://me:a?secret@host/db", "postgres://…"],
  ["postgres://me:a#secret@host/db", "postgres://…"],
  ["postgres://host/db?user=me@secret", "postgres://…"],
];

for (const [url, shown] of urls) {
  it(`redactUrl shows ${shown} for ${url}`, () => {
    assertEquals(redactUrl(url), shown);
  });
}
