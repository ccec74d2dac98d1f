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

/** A process that waits for a message, and may end: then nothing that it says gets anywhere. */
async function startProcess(url: string): Promise<
  & {
    readonly mailbox: NatsMailbox<unknown>;
    /** Resolves when it has asked the server to tell it of a message. */
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
  it("leaves a message that comes at that moment to others, though it closes nothing", async () => {
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

  it("does not wait for a server that is frozen", async () => {
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

describe("a busy process on NATS that nothing ends from outside", gate, () => {
  it("has stopped, closed and ended soon after its deadline when the server is frozen", async () => {
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
    // connection (0.5 s). Whatever else keeps the process alive does so for half a minute.
    assertLess(ms, deadlineMs + 3_000);
  });
});

describe("a NATS server that was killed", gate, () => {
  it("has forgotten that a message is gone, and would not deliver it: it is sent again", async () => {
    await using server = await startServer();
    await using mailbox = await NatsMailbox.open<unknown>(server.url, options);
    await mailbox.sendMany(["done", "held"]);
    const [done, held] = await mailbox.receive({ maxMessages: 2, visibilityTimeoutMs: 600_000 });
    const stream = join(server.folder, "jetstream/$G/streams/lastcall_orders");
    const [consumer = ""] = await readdir(join(stream, "obs"));
    const stateFile = join(stream, "obs", consumer, "o.dat");
    const written = await eventually(async () => {
      const state = await readFile(stateFile);
      assert(state.length > 0, "the server writes what is in flight");
      return state;
    });
    await server.kill("SIGTERM");
    // A server that ends while it writes the file leaves it empty.
    if ((await readFile(stateFile)).length === 0) await writeFile(stateFile, written);
    const ofTwo = await readFile(stateFile);
    await cp(join(stream, "msgs"), join(server.folder, "before"), { recursive: true });
    await server.start();
    await eventually(() => done!.acknowledge());
    // What is done is written down, and what is gone is not.
    await eventually(async () => {
      const now = await readFile(stateFile);
      const states = `before: ${ofTwo.toString("hex")}, now: ${now.toString("hex")}`;
      assert(0 < now.length && now.length < ofTwo.length, `one less is in flight; ${states}`);
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
    assertEquals(received.map(({ id, body }) => [id, body]), [[done!.id, "done"]]);
    await received[0]!.acknowledge();
    await held!.acknowledge();
    assertEquals(await mailbox.approximateCount(), 0);
  });
});
