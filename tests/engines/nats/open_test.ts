import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { assertEquals, assertGreater, assertRejects, assertStringIncludes } from "@std/assert";
import { deferred } from "../../../src/_promises.ts";
import { systemClock } from "../../../src/clock.ts";
import { namesOf } from "../../../src/engines/nats/_queue.ts";
import { NatsMailbox } from "../../../src/engines/nats/mod.ts";
import { silentLog } from "../../../src/log.ts";
import { MailboxConnectionError } from "../../../mod.ts";
import { converses, hasBinary, missing, nats, PrivateServer } from "../_servers.ts";
import { connectTo, look } from "./_nats.ts";

const gate = { skip: hasBinary(nats) ? false : missing(nats) };

/** Calls `heard` with the error code of each failed creation of a mailbox stream. */
async function onRefusal(at: string, heard: (code: number) => void): Promise<AsyncDisposable> {
  const connection = await connectTo(at);
  connection.subscribe("$JS.EVENT.ADVISORY.API", {
    callback(_, message) {
      const { subject, response } = message.json<{ subject: string; response: string }>();
      if (!subject.startsWith("$JS.API.STREAM.CREATE.lastcall")) return;
      const { error } = JSON.parse(response) as { error?: { err_code: number } };
      if (error !== undefined) heard(error.err_code);
    },
  });
  await connection.flush();
  return { [Symbol.asyncDispose]: () => connection.close() };
}

/** Puts a file where the server has its folder of streams, so that it cannot create one. */
function obstruct(server: PrivateServer): () => void {
  const place = join(server.folder, "jetstream/$G/streams");
  mkdirSync(dirname(place), { recursive: true });
  writeFileSync(place, "");
  return () => rmSync(place);
}

/** Returns a clock that counts the pauses of a mailbox. */
function countingClock(): { readonly clock: typeof systemClock; pauses(): number } {
  let pauses = 0;
  const clock = {
    ...systemClock,
    sleep: (...args: Parameters<typeof systemClock.sleep>) => {
      pauses++;
      return systemClock.sleep(...args);
    },
  };
  return { clock, pauses: () => pauses };
}

describe("opening a mailbox on NATS", gate, () => {
  it("opening on NATS succeeds after the server could not create a stream for a moment", async () => {
    await using server = await PrivateServer.start(nats);
    const refused = deferred<number>();
    await using _ = await onRefusal(server.url, refused.resolve);
    const clear = obstruct(server);
    const opening = NatsMailbox.open<string>(server.url, { log: silentLog, callTimeoutMs: 60_000 });
    assertEquals(await Promise.race([refused.promise, opening]), 10_049);
    clear();
    await using mailbox = await opening;
    await mailbox.send("work");
    assertEquals((await mailbox.receive({ waitTimeMs: 10_000 }))[0]?.body, "work");
  });

  it("opening on NATS fails within its timeout when the server cannot create a stream", async () => {
    await using server = await PrivateServer.start(nats);
    obstruct(server);
    const { clock, pauses } = countingClock();
    const options = { name: "orders", log: silentLog, callTimeoutMs: 2_000, clock };
    const { message } = await assertRejects(
      () => NatsMailbox.open(server.url, options),
      MailboxConnectionError,
      'NATS failed to open ("orders"): error creating store for stream',
    );
    assertGreater(pauses(), 1);
    assertStringIncludes(message, `${pauses() + 1} attempts in 2000 ms`);
    assertStringIncludes(message, "check the free space");
  });

  it("opening on NATS fails immediately on a permanent error", async () => {
    await using server = await PrivateServer.start(nats);
    const { clock, pauses } = countingClock();
    const codes: number[] = [];
    const refused = deferred();
    await using _ = await onRefusal(server.url, (code) => {
      codes.push(code);
      refused.resolve();
    });
    const options = { log: silentLog, clock, replicas: 3 };
    await assertRejects(() => NatsMailbox.open(server.url, options), MailboxConnectionError);
    await refused.promise;
    assertEquals([codes, pauses()], [[10_074], 0]);
  });

  it("opening on a NATS server without JetStream fails immediately and says what to do", async () => {
    await using server = await PrivateServer.start({
      ...nats,
      args: (port) => ["--addr", "127.0.0.1", "--port", `${port}`],
      answers: (port) => converses(port, undefined, /^INFO /),
    });
    const { clock, pauses } = countingClock();
    await assertRejects(
      () => NatsMailbox.open(server.url, { log: silentLog, clock }),
      MailboxConnectionError,
      "enable JetStream on the server",
    );
    assertEquals(pauses(), 0);
  });

  it("opening on NATS succeeds while other programs create and delete the last streams of the account", async () => {
    await using server = await PrivateServer.start(nats);
    let refusals = 0;
    await using _ = await onRefusal(server.url, () => refusals++);
    let over = false;
    const others = ["a", "b"].map(async (name) => {
      await using behind = await look(server.url);
      while (!over) {
        await behind.jsm.streams.add({ name, subjects: [name] }).catch(() => {});
        await behind.jsm.streams.delete(name).catch(() => {});
      }
    });
    try {
      await using behind = await look(server.url);
      // NATS 2.9 refuses about one of 50; a later server may refuse none.
      for (let round = 0; round < 200 && refusals === 0; round++) {
        const name = `orders-${round}`;
        await using _ = await NatsMailbox.open(server.url, { name, log: silentLog });
        const { stream, notes } = namesOf(name);
        for (const each of [stream, notes]) await behind.jsm.streams.delete(each);
      }
    } finally {
      over = true;
      await Promise.all(others);
    }
  });
});
