import { after, before, describe, it } from "node:test";
import {
  assert,
  assertEquals,
  assertGreater,
  assertGreaterOrEqual,
  assertLess,
  assertRejects,
} from "@std/assert";
import { SQSClient } from "@aws-sdk/client-sqs";
import { systemClock } from "../../../src/clock.ts";
import { SqsMailbox, type SqsMailboxOptions } from "../../../src/engines/sqs/mod.ts";
import { silentLog } from "../../../src/log.ts";
import { MailboxLoop } from "../../../src/loops/mailbox_loop.ts";
import { MailboxConnectionError, ReceiptHandleExpiredError } from "../../../src/mailbox/errors.ts";
import type { Message } from "../../../src/mailbox/mailbox.ts";
import { BreakingProxy } from "../_proxy.ts";
import { eventually } from "../_servers.ts";
import { noServer, SqsServer } from "./_server.ts";
import { uniqueName } from "./_sqs.ts";

/** Which side of a call is cut. */
type Moment = "command" | "reply";

const DELETE = /DeleteMessageBatch/;
const HIDE = /ChangeMessageVisibilityBatch/;

/** The settlements whose answer can be lost, and the command of each. */
const settlements: readonly (readonly [
  name: string,
  command: RegExp,
  settle: (message: Message<number>) => Promise<void>,
])[] = [
  ["acknowledge", DELETE, (message) => message.acknowledge()],
  ["nack", HIDE, (message) => message.nack()],
  ["release", HIDE, (message) => message.release()],
  ["dead-letter", DELETE, (message) => message.deadLetter({ reason: "bad" })],
];

describe("an SqsMailbox whose connections are cut", { skip: noServer }, () => {
  let server: SqsServer;
  let proxy: BreakingProxy;
  before(async () => {
    server = await SqsServer.start();
    proxy = await BreakingProxy.before(server.port);
  });
  after(async () => {
    await proxy?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  async function open(
    options: SqsMailboxOptions & { readonly attempts?: number } = {},
  ): Promise<SqsMailbox<number>> {
    const { attempts = 1, ...rest } = options;
    const client = new SQSClient({
      endpoint: `http://127.0.0.1:${proxy.port}`,
      region: "us-east-1",
      credentials: { accessKeyId: "test", secretAccessKey: "very-secret" },
      maxAttempts: attempts,
    });
    const settings = { client, create: true, log: silentLog, ...rest };
    const mailbox = await SqsMailbox.open<number>(uniqueName(), settings);
    const close = mailbox.close.bind(mailbox);
    mailbox.close = async () => {
      await close();
      client.destroy();
    };
    return mailbox;
  }

  /** Cuts connections at matching commands, as often as `mayCut` allows. */
  function cut(moment: Moment, command: RegExp, mayCut: (command: string) => boolean): void {
    const asked = new Map<number, string>();
    proxy.onCommand = (text, connection) => {
      const [, name] = /^x-amz-target: \w+\.(\w+)/im.exec(text) ?? [];
      if (name === undefined) return "pass"; // the rest of a request
      asked.set(connection, name);
      return moment === "command" && command.test(name) && mayCut(name) ? "cut" : "pass";
    };
    proxy.onReply = (_, connection) => {
      const name = asked.get(connection);
      if (name === undefined) return "pass"; // the rest of an answer
      asked.delete(connection);
      return moment === "reply" && command.test(name) && mayCut(name) ? "cut" : "pass";
    };
  }

  /** Cuts the connections of a call until it fails. Deno itself repeats a request whose connection was cut. */
  async function failing(
    moment: Moment,
    command: RegExp,
    act: () => Promise<unknown>,
  ): Promise<void> {
    cut(moment, command, () => true);
    await assertRejects(act, MailboxConnectionError);
    cut(moment, command, () => false);
  }

  const receive = async (mailbox: SqsMailbox<number>, maxMessages: number) => {
    const messages: Message<number>[] = [];
    while (messages.length < maxMessages) {
      const more = { maxMessages: maxMessages - messages.length, waitTimeMs: 5_000 };
      messages.push(...await mailbox.receive(more));
    }
    return messages;
  };

  for (const [name, command, settle] of settlements) {
    it(`a repeated ${name} reports what the first request did when its answer was lost`, async () => {
      await using mailbox = await open();
      await mailbox.sendMany([1, 2]);
      const [message, other] = await receive(mailbox, 2);
      await failing("reply", command, () => settle(message!));
      await settle(message!);
      assertEquals(message!.finalized, true);
      await failing("command", command, () => settle(other!));
      await settle(other!);
      const gone = name === "acknowledge" || name === "dead-letter";
      assertEquals(await mailbox.approximateCount(), gone ? 0 : 2);
      const letters = await mailbox.deadLetters.approximateCount();
      assertEquals(letters, name === "dead-letter" ? 2 : 0);
    });
  }

  it("a release succeeds when the SDK or the runtime repeats its request", async () => {
    await using mailbox = await open({ attempts: 3 });
    await mailbox.send(1);
    const [message] = await receive(mailbox, 1);
    let left = 1;
    cut("reply", HIDE, () => left-- > 0);
    await message!.release();
    assertEquals((await receive(mailbox, 1))[0]?.body, 1);
  });

  it("a repeated acknowledgeMany reports all messages when a part of the first call failed", async () => {
    await using mailbox = await open();
    await mailbox.sendMany(Array.from({ length: 30 }, (_, i) => i));
    const messages = await receive(mailbox, 30);
    // Cuts all of the three requests but the first.
    let passed = false;
    cut("command", DELETE, () => passed || !(passed = true));
    await assertRejects(() => mailbox.acknowledgeMany(messages), MailboxConnectionError);
    cut("command", DELETE, () => false);
    assertEquals(await mailbox.approximateCount(), 20);
    assertEquals(await mailbox.acknowledgeMany(messages), messages.map(() => true));
    assertEquals(await mailbox.approximateCount(), 0);
  });

  it("a repeated acknowledge succeeds also when the lease has nearly passed", async () => {
    let laterMs = 0;
    const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + laterMs };
    await using mailbox = await open({ clock });
    await mailbox.send(1);
    const [message] = await mailbox.receive({ visibilityTimeoutMs: 30_000, waitTimeMs: 5_000 });
    await failing("reply", DELETE, () => message!.acknowledge());
    laterMs = 29_500;
    await message!.acknowledge();
  });

  it("an acknowledge fails when the lease passed while the connection was cut", async () => {
    await using mailbox = await open();
    await mailbox.send(1);
    const [message] = await mailbox.receive({ visibilityTimeoutMs: 2_000, waitTimeMs: 5_000 });
    await failing("command", DELETE, () => message!.acknowledge());
    const [again] = await mailbox.receive({ waitTimeMs: 10_000 });
    assertEquals(again?.deliveryCount, 2);
    await assertRejects(() => message!.acknowledge(), ReceiptHandleExpiredError);
    await again!.acknowledge();
  });

  it("a loop counts messages as acknowledged when the answers of their acknowledgements are lost", async () => {
    const count = 200;
    await using mailbox = await open();
    await mailbox.sendMany(Array.from({ length: count }, (_, i) => i));
    let done = 0;
    let finish = () => {};
    const finished = new Promise<void>((resolve) => finish = resolve);
    const loop = new MailboxLoop<number>({
      mailbox,
      concurrency: 50,
      log: silentLog,
      handler: () => {
        if (++done === count) finish();
      },
    });
    let calls = 0;
    const before = proxy.cuts;
    cut("reply", DELETE, () => ++calls % 3 === 0 && calls <= 15);
    const running = loop.run({ visibilityTimeoutMs: 60_000, waitTimeMs: 1_000 });
    await finished;
    await loop.shutdown();
    await running;
    assertGreater(proxy.cuts, before);
    assertEquals(loop.counts, {
      ...{ received: count, acknowledged: count },
      ...{ released: 0, nacked: 0, deadLettered: 0, cancelled: 0, leftToExpire: 0 },
    });
    assertEquals([done, await mailbox.approximateCount()], [count, 0]);
  });

  // A send or a receive whose answer is lost is repeated: SQS cannot report whether it happened.
  for (const moment of ["command", "reply"] as const) {
    it(`loses no message when 100 connections are cut before the ${moment}`, async () => {
      const from = performance.now();
      const cutsBefore = proxy.cuts;
      const calls = new Map<string, number>();
      const commands = moment === "command" ? /Batch$|ReceiveMessage/ : DELETE;
      cut(moment, commands, (name) => {
        const call = (calls.get(name) ?? 0) + 1;
        calls.set(name, call);
        return call % 2 === 0 && proxy.cuts - cutsBefore < 100;
      });
      const handled = await Promise.all(["a", "b", "c", "d"].map(async () => {
        await using mailbox = await open();
        const seen: string[] = [];
        for (let sent = 0; proxy.cuts - cutsBefore < 100; sent++) {
          await eventually(() => mailbox.send(sent));
          const [message] = await eventually(() => mailbox.receive({ waitTimeMs: 1_000 }));
          assert(message !== undefined, `message ${sent} is visible`);
          await eventually(() => message.acknowledge());
          seen.push(`${message.body} by delivery ${message.deliveryCount}`);
        }
        assertEquals(await mailbox.approximateCount(), 0);
        return seen;
      }));
      for (const seen of handled) assertEquals(seen, seen.map((_, i) => `${i} by delivery 1`));
      assertGreaterOrEqual(proxy.cuts - cutsBefore, 100);
      const tookMs = performance.now() - from;
      assertLess(tookMs, 30_000, `${Math.round(tookMs)} ms for 100 cuts`);
    });
  }
});
