import { describe, it } from "node:test";
import { assert, assertEquals, assertFalse, assertRejects } from "@std/assert";
import { type NatsConnection, NatsMailbox } from "../../../src/engines/nats/mod.ts";
import { namesOf } from "../../../src/engines/nats/_queue.ts";
import { systemClock } from "../../../src/clock.ts";
import { silentLog } from "../../../src/log.ts";
import {
  InvalidParameterError,
  MailboxConnectionError,
  MailboxFullError,
  ReceiptHandleExpiredError,
} from "../../../mod.ts";
import { eventually, hasBinary, nats, PrivateServer } from "../_servers.ts";
import {
  cleanUp,
  connectTo,
  consumerOf,
  gate,
  look,
  openForTest,
  uniqueName,
  url,
} from "./_nats.ts";

const MS = 1_000_000;

describe("a queue on NATS", gate, () => {
  it("every queue on NATS has its own streams, whatever its name", async () => {
    const base = uniqueName();
    const names = ["a.b", "a_db", "a:b", "a@b", "a/b", "a__b", "a_b"].map((it) => `${base}${it}`);
    assertEquals(new Set(names.map((name) => namesOf(name).stream)).size, names.length);
    for (const name of names) {
      await using it = await openForTest(url, { name });
      assertEquals(await it.mailbox.approximateCount(), 0);
      await it.mailbox.send(name);
      assertEquals((await it.mailbox.receive({ waitTimeMs: 10_000 }))[0]?.body, name);
    }
  });

  it("a queue name that is too long for NATS is refused", async () => {
    const open = () => NatsMailbox.open(url, { name: ".".repeat(180) });
    const error = await assertRejects(open, InvalidParameterError);
    assert(error.message.includes("count twice"), error.message);
  });

  it("a queue whose NATS stream belongs to another program is not opened, and the stream is unchanged", async () => {
    await using behind = await look();
    const name = uniqueName();
    const { stream, subjects } = namesOf(name);
    await behind.jsm.streams.add({ name: stream, subjects: [`${subjects}*`] });
    const error = await assertRejects(
      () => NatsMailbox.open(url, { name }),
      MailboxConnectionError,
    );
    assert(error.message.includes("left alone"), error.message);
    const { config } = await behind.jsm.streams.info(stream);
    assertEquals([config.retention, config.description], ["limits", undefined]);
    await cleanUp(name);
  });

  it("maxSize of a NATS queue applies to all senders, and a refused batch leaves no message", async () => {
    await using it = await openForTest(url, { maxSize: 3 });
    const { mailbox, name } = it;
    await using other = await NatsMailbox.open<unknown>(url, { name });
    await mailbox.send("a", { id: "same" });
    for (const sender of [mailbox, other]) {
      const error = await assertRejects(() => sender.sendMany([1, 2, 3]), MailboxFullError);
      assert(error.message.includes("of 3 messages and cannot take 3 more"), error.message);
      assertEquals(await mailbox.approximateCount(), 1);
    }
    await other.sendMany(["b", "c"]);
    await assertRejects(() => other.send("d"), MailboxFullError);
    await other.send("again", { id: "same" });
    await using wider = await NatsMailbox.open<unknown>(url, { name, maxSize: 4 });
    await wider.send("d");
    assertEquals(await mailbox.approximateCount(), 4);
  });

  it("a body that exceeds max_payload of NATS is refused before it is sent", async () => {
    await using it = await openForTest(url, { maxBodyBytes: 10_000_000 });
    const body = "x".repeat(2_000_000);
    await assertRejects(() => it.mailbox.send(body), InvalidParameterError, "max_payload");
    await assertRejects(() => it.mailbox.sendMany(["good", body]), InvalidParameterError);
    assertEquals(await it.mailbox.approximateCount(), 0);
  });

  it("a message on NATS is accepted only if its dead letter, with all headers, fits too", async () => {
    await using it = await openForTest(url, { maxBodyBytes: 10_000_000 });
    const { mailbox } = it;
    const headers = { large: "x".repeat(100_000) };
    const send = (bytes: number) => mailbox.send("x".repeat(bytes), { headers });
    const most = 1_048_576; // the default of max_payload
    await assertRejects(() => send(most - 120_000), InvalidParameterError, "max_payload");
    await send(most - 210_000);
    const [message] = await mailbox.receive({ waitTimeMs: 10_000 });
    await message!.deadLetter({ reason: "test" });
    assertEquals(await mailbox.deadLetters.approximateCount(), 1);
  });

  it("NATS stores notes only about messages that exist", async () => {
    await using it = await openForTest();
    await using behind = await look();
    const { mailbox, name } = it;
    const notes = async () => (await behind.jsm.streams.info(namesOf(name).notes)).state.messages;
    await mailbox.sendMany(["a", "b"]);
    const [a, b] = await mailbox.receive({ maxMessages: 2 });
    await a!.release();
    await b!.saveCheckpoint("half");
    assertEquals(await notes(), 2);
    await b!.deadLetter({ reason: "test" });
    const [again] = await mailbox.receive({ waitTimeMs: 10_000 });
    await again!.acknowledge();
    await eventually(async () => assertEquals(await notes(), 0));
  });

  it("a lease on NATS can be longer than ack_wait", async () => {
    await using it = await openForTest();
    await using behind = await look();
    const { mailbox, name } = it;
    const ownMs = 5_000;
    const { stream_name, name: consumer } = await consumerOf(behind.jsm, name);
    await behind.jsm.consumers.update(stream_name, consumer, { ack_wait: ownMs * MS });
    await using other = await NatsMailbox.open<unknown>(url, { name });
    await other.send("work");
    const [message] = await other.receive({ visibilityTimeoutMs: 60_000 });
    await systemClock.sleep(ownMs + 500);
    assertEquals(await mailbox.receive(), []);
    await message!.acknowledge();
    assertEquals(await mailbox.approximateCount(), 0);
  });

  it("an expired receipt handle on NATS is refused after this process was blocked", async () => {
    await using it = await openForTest();
    const { mailbox } = it;
    await mailbox.send("work");
    const [message] = await mailbox.receive({ visibilityTimeoutMs: 50 });
    for (const endsAt = performance.now() + 60; performance.now() < endsAt;); // no timer runs
    await assertRejects(() => message!.acknowledge(), ReceiptHandleExpiredError);
    const [again] = await mailbox.receive({ waitTimeMs: 20_000 });
    assertEquals([again?.id, again?.deliveryCount], [message?.id, 2]);
  });

  it("a message on NATS has one dead letter after dead-lettering was interrupted", async () => {
    const name = uniqueName();
    const connection = await connectTo();
    let losing = false;
    const lossy: NatsConnection = {
      publish(subject, payload, options) {
        if (losing && payload instanceof Uint8Array && payload[0] === "+".charCodeAt(0)) return;
        connection.publish(subject, payload, options);
      },
      subscribe: (subject, options) => connection.subscribe(subject, options as never),
      status: () => connection.status(),
      isClosed: () => connection.isClosed(),
      close: () => connection.close(),
    };
    {
      const options = { name, callTimeoutMs: 2_000, log: silentLog };
      await using mailbox = await NatsMailbox.open<string>(lossy, options);
      await mailbox.send("work");
      const [message] = await mailbox.receive({ waitTimeMs: 10_000 });
      losing = true;
      await assertRejects(() => message!.deadLetter({ reason: "test" }), MailboxConnectionError);
      assertEquals(await mailbox.approximateCount(), 1);
      assertEquals(await mailbox.deadLetters.approximateCount(), 1);
      losing = false;
      await message!.deadLetter({ reason: "test" });
      assertEquals(await mailbox.approximateCount(), 0);
      assertEquals(await mailbox.deadLetters.approximateCount(), 1);
    }
    assertFalse(connection.isClosed(), "the caller passed it");
    await connection.close();
    await cleanUp(name);
  });

  it("errors of NATS contain no passwords", async () => {
    const secret = "s3cr3t";
    const urls = [
      `nats://me:${secret}@127.0.0.1:1`,
      `nats://${secret}@127.0.0.1:1`,
      `http://me:${secret}@127.0.0.1`,
      `nats://me:${secret}%@127.0.0.1`,
      `nats://me:${secret}@`,
    ];
    for (const bad of urls) {
      const error = await assertRejects(() => NatsMailbox.open(bad, { log: silentLog }), Error);
      assertFalse(`${error.stack} ${error.cause}`.includes(secret), error.message);
    }
  });

  const guarded = { skip: hasBinary(nats) ? false : "no nats-server" };
  it("a NATS server with a password refuses a wrong one", guarded, async () => {
    const password = "s3:cr/3t";
    const login = ["--user", "me", "--pass", password];
    await using server = await PrivateServer.start({
      ...nats,
      args: (port, folder) => [...nats.args(port, folder), ...login],
    });
    const at = (user: string) => server.url.replace("//", `//${user}@`);
    await using mailbox = await NatsMailbox.open<string>(at(`me:${encodeURIComponent(password)}`));
    await mailbox.send("work");
    assertEquals((await mailbox.receive({ waitTimeMs: 10_000 }))[0]?.body, "work");
    for (const user of ["me:wr0ng", "wr0ng"]) {
      const error = await assertRejects(() => NatsMailbox.open(at(user)), MailboxConnectionError);
      assert(error.message.includes("check the user"), error.message);
      assertFalse(`${error.stack} ${error.cause}`.includes("wr0ng"), error.message);
    }
  });
});
