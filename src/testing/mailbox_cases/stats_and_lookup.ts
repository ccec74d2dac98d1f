import { assert, assertEquals, assertRejects } from "@std/assert";
import { deferred } from "../../_promises.ts";
import { systemClock } from "../../clock.ts";
import type { Mailbox } from "../../mailbox/mailbox.ts";
import { isMailboxError } from "../../mailbox/errors.ts";
import { type MailboxCase, refused, topic } from "./mailbox_case.ts";

const found = topic("get and cancel", { requires: ["lookup"] });
const requested = topic("requests", { requires: ["requests"] });

/** The mailbox counts its messages by state. */
export const stats: readonly MailboxCase[] = [
  topic("stats", { requires: ["exactStats", "delay"], needs: ["deadLetters"] })(
    "stats count messages by state",
    async (setup) => {
      const { mailbox } = setup;
      assertEquals((await mailbox.stats()).waiting, 0);
      await mailbox.sendMany([1, 2, 3, 4, 5]);
      await mailbox.send("later", { delayMs: setup.ms(100) });
      const [first, second] = await mailbox.receive({ maxMessages: 3 });
      await first!.nack({ delayMs: setup.ms(100) });
      await second!.deadLetter({ reason: "test" });
      const { waiting, delayed = 2, inFlight = 1, dead } = await mailbox.stats();
      assertEquals([waiting, delayed, inFlight, dead], [2, 2, 1, 1]);
    },
  ),

  topic("stats", { requires: ["exactStats"] })(
    "stats tell how long the oldest message waits",
    async (setup) => {
      const { mailbox } = setup;
      assertEquals((await mailbox.stats()).oldestWaitingMs, undefined);
      await mailbox.send("old");
      await setup.pass(3);
      await mailbox.send("new");
      const measuredAt = systemClock.monotonic();
      const { oldestWaitingMs = 0 } = await mailbox.stats();
      assert(oldestWaitingMs >= setup.ms(3) - 2, `${oldestWaitingMs} ms`);
      await setup.receiveAndAcknowledge(1);
      const { oldestWaitingMs: next = Infinity } = await mailbox.stats();
      const elapsedMs = systemClock.monotonic() - measuredAt;
      assert(next <= oldestWaitingMs - setup.ms(3) + elapsedMs + 5, `${next} ms`);
    },
  ),

  topic("stats", { requires: ["keys", "exactStats"] })(
    "a message behind another one with its key counts as waiting",
    async (setup) => {
      await setup.mailbox.sendMany([1, 2, 3], () => ({ key: "a" }));
      await setup.receiveOne();
      const { waiting, inFlight } = await setup.mailbox.stats();
      assertEquals([waiting, inFlight], [2, 1]);
    },
  ),

  topic("stats", { requires: ["exactStats", "delay"] })(
    "a message whose delay or lease is over counts as waiting",
    async (setup) => {
      const { mailbox } = setup;
      await mailbox.send("leased");
      await setup.receiveOne({ visibilityTimeoutMs: setup.ms(2) });
      await mailbox.send("delayed", { delayMs: setup.ms(2) });
      await setup.pass(2.5);
      const { waiting, delayed, inFlight } = await mailbox.stats();
      assertEquals([waiting, delayed, inFlight], [2, 0, 0]);
    },
  ),

  topic("stats", { needs: ["queues"] })("queues lists the queue with its counts", async (setup) => {
    const { mailbox } = setup;
    await mailbox.sendMany([1, 2]);
    const queues = await mailbox.queues();
    const own = queues.find(({ name }) => name === mailbox.name);
    assertEquals([own?.waiting, own?.dead], [2, 0]);
    assert(
      !queues.some(({ name }) => name.endsWith(".dead")),
      "dead letters belong to their queue",
    );
  }),

  topic("stats", { requires: ["requests"], needs: ["queue"] })(
    "queue returns another queue, whose close leaves the connection open",
    async (setup) => {
      const { mailbox } = setup;
      const other = mailbox.queue<unknown>(`${mailbox.name}.other`);
      await other.send("other");
      await setup.assertNoneVisible();
      await mailbox.send("own");
      assertEquals(await setup.receiveAndAcknowledge(10, other), ["other"]);
      await other.close();
      assertEquals(await setup.receiveAndAcknowledge(), ["own"]);
      const again = mailbox.queue<unknown>(other.name);
      await again.send("again");
      assertEquals(await again.purge(), 1);
      await again.close();
    },
  ),
];

/** Messages are found and cancelled by their id. */
export const getAndCancel: readonly MailboxCase[] = [
  found("get returns a message in any state, and does not receive it", async (setup) => {
    const { mailbox } = setup;
    const options = { headers: { tenant: "acme" }, checkpoint: { step: 1 } };
    const { id } = await mailbox.send({ n: 1 }, options);
    const waiting = await mailbox.get(id);
    assertEquals([waiting?.body, waiting?.state, waiting?.deliveryCount], [{ n: 1 }, "waiting", 0]);
    assertEquals([waiting?.headers, waiting?.checkpoint], [options.headers, { step: 1 }]);
    const message = await setup.receiveOne();
    const inFlight = await mailbox.get(id);
    assertEquals([inFlight?.state, inFlight?.deliveryCount], ["inFlight", 1]);
    await message.nack({ delayMs: setup.ms(100) });
    assertEquals((await mailbox.get(id))?.state, "delayed");
    const { id: chosen } = await mailbox.send("chosen", { id: "order 7/'ü'" });
    assertEquals((await mailbox.get(chosen))?.body, "chosen");
    await setup.receiveAndAcknowledge();
    assertEquals(await mailbox.get(chosen), undefined);
    assertEquals(await mailbox.get("unknown"), undefined);
  }),

  found("a cancelled message is gone, whatever its state", async (setup) => {
    const { mailbox } = setup;
    const { id: waiting } = await mailbox.send("waiting");
    const { id: delayed } = await mailbox.send("delayed", { delayMs: setup.ms(100), id: "later" });
    for (const id of [waiting, delayed]) {
      assertEquals(await mailbox.cancel(id), true);
      assertEquals(await mailbox.cancel(id), false);
      assertEquals(await mailbox.get(id), undefined);
    }
    await setup.assertNoneVisible();
    assertEquals(await mailbox.approximateCount(), 0);
    assert((await mailbox.send("again", { id: delayed })).stored, "its id is free");
    assertEquals(await mailbox.cancel("unknown"), false);
  }),

  found("a message that is cancelled in flight is not delivered again", async (setup) => {
    const { mailbox } = setup;
    await mailbox.send("work");
    const message = await setup.receiveOne({ visibilityTimeoutMs: setup.ms(3) });
    assertEquals(await mailbox.cancel(message.id), true);
    await refused("ReceiptHandleExpiredError", () => message.release());
    await setup.pass(3.5);
    await setup.assertNoneVisible();
    assertEquals(await mailbox.approximateCount(), 0);
  }),

  topic("get and cancel", { requires: ["lookup"], needs: ["sibling"] })(
    "the process that holds a cancelled message is told, others only if they listen",
    async (setup) => {
      const { mailbox } = setup;
      const sibling = await setup.sibling();
      await mailbox.sendMany(["held", "waiting"]);
      const held = await setup.receiveOne({}, sibling);
      const [waiting] = (await mailbox.peek(10)).filter(({ id }) => id !== held.id);
      const heard: string[] = [];
      const hearing = deferred();
      const stop = sibling.onCancel!((id) => {
        heard.push(id);
        hearing.resolve();
      });
      await setup.pass(1); // an engine may take a moment to listen
      await mailbox.cancel(waiting!.id);
      await mailbox.cancel(held.id);
      await setup.soon(hearing.promise);
      assertEquals(heard, [held.id], "no process holds the other one");
      await stop();
    },
  ),
];

/** Answers each request with its body and the name of the reply mailbox. */
async function answer(mailbox: Mailbox<unknown>, count: number): Promise<string[]> {
  const replyTo: string[] = [];
  for (let i = 0; i < count; i++) {
    const [message] = await mailbox.receive({ waitTimeMs: 10_000 });
    await message!.reply({ echo: message!.body });
    await message!.acknowledge();
    replyTo.push(message!.replyTo!);
  }
  return replyTo;
}

/** A request waits for the reply of its handler. */
export const requests: readonly MailboxCase[] = [
  requested("a request resolves with the reply of its handler", async (setup) => {
    const { mailbox } = setup;
    const sent = ["a", "b", "c"].map((body) => mailbox.request(body));
    const replyTo = await answer(mailbox, 3);
    const replies = await setup.soon(Promise.all(sent));
    assertEquals(replies, [{ echo: "a" }, { echo: "b" }, { echo: "c" }]);
    assertEquals(new Set(replyTo).size, 1, "all requests share one reply mailbox");
    assertEquals(await mailbox.approximateCount(), 0);
  }),

  topic("requests", { requires: ["requests"], needs: ["sibling"] })(
    "a handler of another process answers",
    async (setup) => {
      const sibling = await setup.sibling();
      const reply = setup.mailbox.request("ping");
      await answer(sibling, 1);
      assertEquals(await setup.soon(reply), { echo: "ping" });
    },
  ),

  requested("a request without a reply rejects after its timeout", async (setup) => {
    const { mailbox } = setup;
    const requesting = assertRejects(() => mailbox.request("ping", { timeoutMs: setup.ms(8) }));
    const message = await setup.receiveOne({ waitTimeMs: setup.ms(6) });
    await setup.pass(9);
    const error = await setup.soon(requesting);
    assert(isMailboxError(error, "RequestTimeoutError"), String(error));
    await message.reply("too late");
    await message.acknowledge();
    if (mailbox.queues !== undefined) {
      const left = (await mailbox.queues()).filter(({ name }) => name === message.replyTo);
      assertEquals(left.map(({ waiting }) => waiting).filter((it) => it > 0), [], "no late reply");
    }
  }),

  requested("an unanswered request is not delivered after its timeout", async (setup) => {
    const { mailbox } = setup;
    const requesting = assertRejects(() => mailbox.request("ping", { timeoutMs: setup.ms(2) }));
    for (let i = 0; i < 100 && await mailbox.approximateCount() === 0; i++) await setup.pass(0);
    await setup.pass(2.5);
    await setup.soon(requesting);
    assertEquals(await setup.receiveAndAcknowledge(), []);
    assertEquals(await mailbox.approximateCount(), 0);
  }),

  requested("an aborted request rejects with the reason", async (setup) => {
    const abort = new AbortController();
    const requesting = assertRejects(() => {
      return setup.mailbox.request("ping", { signal: abort.signal });
    });
    abort.abort(new Error("changed my mind"));
    const error = await setup.soon(requesting);
    assertEquals((error as Error).message, "changed my mind");
  }),

  requested("a close rejects waiting requests", async (setup) => {
    const requesting = assertRejects(() => setup.mailbox.request("ping"));
    await setup.pass(0.5);
    await setup.mailbox.close();
    const error = await setup.soon(requesting);
    assert(isMailboxError(error, "MailboxClosedError"), String(error));
  }),
];
