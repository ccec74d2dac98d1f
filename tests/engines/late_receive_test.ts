// A receive that reaches the server after its connection broke, and after it was given up.

import { describe, it } from "node:test";
import { assertEquals, assertRejects } from "@std/assert";
import { PostgresMailbox } from "../../src/engines/postgres/mod.ts";
import { RedisMailbox } from "../../src/engines/redis/mod.ts";
import { silentLog } from "../../src/log.ts";
import { type Mailbox, MailboxConnectionError } from "../../mod.ts";
import { BreakingProxy } from "./_proxy.ts";
import { privateOptions, PrivatePostgres } from "./postgres/_private.ts";
import { eventually, hasBinary, missing, PrivateServer, redis } from "./_servers.ts";

interface Kind {
  readonly name: string;
  readonly gate: { readonly skip: string | false };
  start(): Promise<{ readonly port: number; readonly url: string } & AsyncDisposable>;
  open(url: string): Promise<Mailbox<string> & AsyncDisposable>;
}

const options = { name: "orders", pollIntervalMs: 600_000, log: silentLog };

const kinds: readonly Kind[] = [
  {
    name: "Redis",
    gate: { skip: hasBinary(redis) ? false : missing(redis) },
    start: () => PrivateServer.start(redis),
    open: (url) => RedisMailbox.open<string>(url, options),
  },
  {
    name: "PostgreSQL",
    gate: privateOptions,
    start: () => PrivatePostgres.start(),
    open: (url) => PostgresMailbox.open<string>(url, options),
  },
];

describe("a receive that was given up", () => {
  for (const { name, gate, start, open } of kinds) {
    it(
      `a receive that reaches ${name} after its timeout hides no message and counts no attempt`,
      gate,
      async () => {
        await using server = await start();
        await using proxy = await BreakingProxy.before(server.port);
        await using mailbox = await open(server.url.replace(`${server.port}`, `${proxy.port}`));
        await using other = await open(server.url);
        assertEquals(await mailbox.receive(), []);
        proxy.holdNext();
        await assertRejects(() => mailbox.receive(), MailboxConnectionError);
        // Gives back what it took: nothing so far.
        assertEquals(await eventually(() => mailbox.receive()), []);
        await other.send("work");
        await proxy.deliverHeld();
        assertEquals(await other.receive(), [], "the late receive has taken it");
        const [message] = await eventually(async () => {
          const messages = await mailbox.receive();
          assertEquals(messages.length, 1);
          return messages;
        });
        assertEquals([message?.body, message?.deliveryCount], ["work", 1]);
      },
    );
  }
});
