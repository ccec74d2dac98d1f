import { describe, it } from "node:test";
import { cp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { assert, assertEquals, assertLess } from "@std/assert";
import { type NatsConnection, NatsMailbox } from "../../../src/engines/nats/mod.ts";
import { deferred } from "../../../src/_promises.ts";
import { silentLog } from "../../../src/log.ts";
import { Child } from "../../signals/_child.ts";
import { eventually, hasBinary, missing, nats } from "../_servers.ts";
import { connectTo, consumerOf, look, startServer } from "./_nats.ts";

const gate = { skip: hasBinary(nats) ? false : missing(nats) };
const options = { name: "orders", pollIntervalMs: 600_000, log: silentLog };

/** Opens a mailbox as a process of its own would. After `end`, nothing that it publishes arrives. */
async function startProcess(url: string): Promise<
  & {
    readonly mailbox: NatsMailbox<unknown>;
    /** Resolves when its long poll has started. */
    readonly waits: Promise<void>;
    end(): void;
  }
  & AsyncDisposable
> {
  const connection = await connectTo(url);
  const { promise: waits, resolve } = deferred();
  let ended = false;
  const line: NatsConnection = {
    publish(subject, payload, publishOptions) {
      if (ended) return;
      connection.publish(subject, payload, publishOptions);
      const text = String(payload);
      if (text.includes("expires") && !text.includes("no_wait")) resolve();
    },
    subscribe: (subject, subscribeOptions) =>
      connection.subscribe(subject, subscribeOptions as never),
    status: () => connection.status(),
    isClosed: () => connection.isClosed(),
    close: () => connection.close(),
  };
  const mailbox = await NatsMailbox.open<unknown>(line, options);
  return {
    mailbox,
    waits,
    end: () => ended = true,
    async [Symbol.asyncDispose]() {
      ended = false;
      await mailbox.close();
      await connection.close();
    },
  };
}

describe("a process that stops while it waits on NATS", gate, () => {
  it("a message that arrives while a NATS receiver is aborted goes to another receiver", async () => {
    await using server = await startServer();
    await using process = await startProcess(server.url);
    await using other = await NatsMailbox.open<unknown>(server.url, options);
    const controller = new AbortController();
    const received = process.mailbox.receive({ waitTimeMs: 60_000, signal: controller.signal });
    await process.waits;
    controller.abort();
    await other.send("work");
    assertEquals(await received, []);
    process.end();
    const [message] = await other.receive({ visibilityTimeoutMs: 600_000 });
    assertEquals([message?.body, message?.deliveryCount], ["work", 1]);
  });

  it("an aborted NATS receive does not wait for a frozen server", async () => {
    await using server = await startServer();
    await using process = await startProcess(server.url);
    const controller = new AbortController();
    const received = process.mailbox.receive({ waitTimeMs: 60_000, signal: controller.signal });
    await process.waits;
    server.freeze();
    const startedAt = performance.now();
    controller.abort();
    assertEquals(await received, []);
    assertLess(performance.now() - startedAt, 4_000);
    server.thaw();
  });
});

describe("a busy process on NATS", gate, () => {
  it("a busy process on a frozen NATS server ends by itself soon after its deadline", async () => {
    const deadlineMs = 2_000;
    await using server = await startServer();
    await using mailbox = await NatsMailbox.open<number>(server.url, options);
    await mailbox.sendMany(Array.from({ length: 1_000 }, (_, i) => i));
    const args = [`${server.url}?queue=orders`, `${deadlineMs}`];
    await using child = Child.start("../../engines/nats/fixtures/runner", { args });
    await child.line("busy");
    server.freeze();
    const from = performance.now();
    child.kill("SIGTERM");
    const { code, stdout } = await child.exit();
    const ms = performance.now() - from;
    server.thaw();
    assertEquals([code, stdout], [0, "busy\nstopped 124\nclosed\n"]);
    // A close of a frozen server's mailbox waits for a request (0.35 s), for a call (1 s) and for the
    // connection (0.5 s). Anything else that keeps the process alive does so for half a minute.
    assertLess(ms, deadlineMs + 3_000);
  });
});

describe("a NATS server that was killed", gate, () => {
  it("a message that a killed NATS server stores but does not deliver is sent again", async () => {
    await using server = await startServer();
    await using mailbox = await NatsMailbox.open<unknown>(server.url, options);
    const sent = { headers: { tenant: "acme" }, checkpoint: { step: 1 } };
    await mailbox.sendMany(["done", "held"], sent);
    const [done, held] = await mailbox.receive({ maxMessages: 2, visibilityTimeoutMs: 600_000 });
    const stream = join(server.folder, "jetstream/$G/streams/lastcall_orders");
    const [consumer = ""] = await readdir(join(stream, "obs"));
    const stateFile = join(stream, "obs", consumer, "o.dat");
    const written = await eventually(async () => {
      const state = await readFile(stateFile);
      assert(state.length > 0, "the server saves which messages are in flight");
      return state;
    });
    await server.kill("SIGTERM");
    // A server that ends while it writes the file leaves it empty.
    if ((await readFile(stateFile)).length === 0) await writeFile(stateFile, written);
    const ofTwo = await readFile(stateFile);
    await cp(join(stream, "msgs"), join(server.folder, "before"), { recursive: true });
    await server.start();
    await eventually(() => done!.acknowledge());
    // The server has saved the acknowledgement, but not the removal.
    await eventually(async () => {
      const now = await readFile(stateFile);
      const states = `before: ${ofTwo.toString("hex")}, now: ${now.toString("hex")}`;
      assert(
        0 < now.length && now.length < ofTwo.length,
        `one message less is in flight; ${states}`,
      );
    });
    await server.kill();
    await rm(join(stream, "msgs"), { recursive: true });
    await cp(join(server.folder, "before"), join(stream, "msgs"), { recursive: true });
    await server.start();

    await using behind = await look(server.url);
    const { num_pending, num_ack_pending } = await consumerOf(behind.jsm, "orders");
    assertEquals([num_pending, num_ack_pending], [0, 1]);
    assertEquals(await eventually(() => mailbox.approximateCount()), 2);
    const received = await eventually(() =>
      mailbox.receive({ maxMessages: 2, waitTimeMs: 15_000 })
    );
    assertEquals(
      received.map(({ id, body, headers, checkpoint }) => [id, body, { headers, checkpoint }]),
      [[done!.id, "done", sent]],
    );
    await received[0]!.acknowledge();
    await held!.acknowledge();
    assertEquals(await mailbox.approximateCount(), 0);
  });
});
