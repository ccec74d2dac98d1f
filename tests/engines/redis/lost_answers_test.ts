// Settlements whose answer was lost: the repetition tells whether the first call was run.

import { describe, it } from "node:test";
import { assertEquals, assertRejects } from "@std/assert";
import type { Redis } from "ioredis";
import { MailboxConnectionError, MailboxLoop, ReceiptHandleExpiredError } from "../../../mod.ts";
import { RedisMailbox } from "../../../src/engines/redis/mod.ts";
import { silentLog } from "../../../src/log.ts";
import { eventually, hasBinary, missing, PrivateServer, redis } from "../_servers.ts";
import { BreakingProxy } from "../_proxy.ts";
import { cleanUp, gate, look, uniqueName, url } from "./_redis.ts";

const own = { skip: hasBinary(redis) ? false : missing(redis) };

type Trouble = "none" | "never sent" | "answer lost";

/** Opens a mailbox whose calls can fail before they reach the server, or after they were run. */
async function openTroubled(): Promise<
  & {
    readonly mailbox: RedisMailbox<unknown>;
    readonly other: RedisMailbox<unknown>;
    trouble: Trouble;
    /** How many calls succeed before the failures begin. */
    spared: number;
  }
  & AsyncDisposable
> {
  const name = uniqueName();
  const behind = look();
  const client = behind.redis;
  const state = { trouble: "none" as Trouble, spared: 0 };
  const call = async (act: () => Promise<unknown>) => {
    const trouble = () => state.spared > 0 ? "none" : state.trouble;
    if (trouble() === "never sent") throw new Error("Connection is closed.");
    const answer = await act();
    if (trouble() === "answer lost") throw new Error("Connection is closed.");
    state.spared--;
    return answer;
  };
  const lossy = {
    evalsha: (...args: Parameters<Redis["evalsha"]>) => call(() => client.evalsha(...args)),
    eval: (...args: Parameters<Redis["eval"]>) => call(() => client.eval(...args)),
    duplicate: (options?: object) => client.duplicate(options),
  };
  const options = { name, log: silentLog };
  const mailbox = await RedisMailbox.open<unknown>(lossy as never, options);
  const other = await RedisMailbox.open<unknown>(url, options);
  return Object.assign(state, {
    mailbox,
    other,
    async [Symbol.asyncDispose]() {
      state.trouble = "none";
      await mailbox.close();
      await other.close();
      await behind[Symbol.asyncDispose]();
      await cleanUp(name);
    },
  });
}

describe("RedisMailbox with lost answers", gate, () => {
  it("an acknowledgement whose answer was lost succeeds when repeated", async () => {
    await using site = await openTroubled();
    const { mailbox } = site;
    await mailbox.send("work", { id: "chosen" });
    const [message] = await mailbox.receive();
    site.trouble = "answer lost";
    await assertRejects(() => message!.acknowledge(), MailboxConnectionError);
    await assertRejects(() => message!.acknowledge(), MailboxConnectionError);
    site.trouble = "none";
    await message!.acknowledge();
    assertEquals(message!.settlement, "acknowledged");
    assertEquals(await mailbox.approximateCount(), 0);
  });

  it("an acknowledgement that never reached the server succeeds when repeated", async () => {
    await using site = await openTroubled();
    const { mailbox } = site;
    await mailbox.send("work");
    const [message] = await mailbox.receive();
    site.trouble = "never sent";
    await assertRejects(() => message!.acknowledge(), MailboxConnectionError);
    site.trouble = "none";
    await message!.acknowledge();
    assertEquals(await mailbox.approximateCount(), 0);
  });

  it("many acknowledgements of which some answers were lost succeed when repeated", async () => {
    await using site = await openTroubled();
    const { mailbox } = site;
    await mailbox.sendMany(Array.from({ length: 1_500 }, (_, i) => i));
    const messages = [
      ...await mailbox.receive({ maxMessages: 1_000 }),
      ...await mailbox.receive({ maxMessages: 1_000 }),
    ];
    const [late, ...rest] = messages;
    await late!.release();
    [site.trouble, site.spared] = ["answer lost", 1]; // the answer for the first thousand arrives
    await assertRejects(() => mailbox.acknowledgeMany(rest), MailboxConnectionError);
    site.trouble = "none";
    assertEquals(new Set(await mailbox.acknowledgeMany(rest)), new Set([true]));
    assertEquals(await mailbox.approximateCount(), 1);
  });

  it("an acknowledgement that a lost receive carried succeeds when repeated", async () => {
    await using site = await openTroubled();
    const { mailbox } = site;
    await mailbox.sendMany(["a", "b"]);
    const [a] = await mailbox.receive();
    site.trouble = "answer lost";
    const receiving = assertRejects(() => mailbox.receive(), MailboxConnectionError);
    await assertRejects(() => a!.acknowledge(), MailboxConnectionError);
    await receiving;
    site.trouble = "none";
    const [results, [b]] = await Promise.all([mailbox.acknowledgeMany([a!]), mailbox.receive()]);
    assertEquals([results, b?.body, b?.deliveryCount], [[true], "b", 1]);
  });

  it("an acknowledgement whose answer was lost unblocks its key once, carried by a receive or not", async () => {
    await using site = await openTroubled();
    const { mailbox, other } = site;
    await mailbox.sendMany(["a1", "a2", "a3", "a4", "a5"], { key: "a" });
    for (const [body, next] of [["a1", "a2"], ["a3", "a4"]] as const) {
      const [message] = await mailbox.receive();
      assertEquals(message?.body, body);
      site.trouble = "answer lost";
      // The receive that carries the acknowledgement leases the next message, and is released later.
      const receiving = body === "a3" ? assertRejects(() => mailbox.receive()) : undefined;
      await assertRejects(() => message!.acknowledge(), MailboxConnectionError);
      await receiving;
      site.trouble = "none";
      await message!.acknowledge();
      const [held, ...more] = await mailbox.receive({ maxMessages: 10 });
      assertEquals([held?.body, held?.deliveryCount, more], [next, 1, []]);
      assertEquals(await other.receive(), []);
      await held!.acknowledge();
    }
    assertEquals((await other.receive({ maxMessages: 10 })).map(({ body }) => body), ["a5"]);
  });

  it("a lost receive of a message with a key keeps its place and blocks its key", async () => {
    await using site = await openTroubled();
    const { mailbox, other } = site;
    await mailbox.sendMany(["a1", "a2"], { key: "a", priority: 3 });
    await mailbox.send("plain");
    site.trouble = "answer lost";
    await assertRejects(() => mailbox.receive(), MailboxConnectionError);
    assertEquals((await other.receive({ maxMessages: 10 })).map(({ body }) => body), ["plain"]);
    site.trouble = "none";
    const [again, ...more] = await mailbox.receive({ maxMessages: 10 });
    assertEquals([again?.body, again?.deliveryCount, more], ["a1", 1, []]);
  });

  it("a cancel whose answer was lost returns true when repeated, and false when another call deleted it", async () => {
    await using site = await openTroubled();
    const { mailbox, other } = site;
    for (const trouble of ["answer lost", "never sent"] as const) {
      const [first, second] = await mailbox.sendMany(["a1", "a2", "a3"], { key: "a" });
      site.trouble = trouble;
      await assertRejects(() => mailbox.cancel(first!.id), MailboxConnectionError);
      site.trouble = "none";
      assertEquals(await mailbox.cancel(first!.id), true);
      assertEquals(await mailbox.cancel(first!.id), false);
      // Another process handles the message before the call is repeated.
      site.trouble = "never sent";
      await assertRejects(() => mailbox.cancel(second!.id), MailboxConnectionError);
      site.trouble = "none";
      await (await other.receive())[0]!.acknowledge();
      assertEquals(await mailbox.cancel(second!.id), false);
      assertEquals((await other.receive())[0]?.body, "a3");
      await other.purge();
    }
  });

  it("a repeated acknowledgement fails when another worker has received the message since", async () => {
    await using site = await openTroubled();
    const { mailbox, other } = site;
    await mailbox.sendMany(["held", "done"]);
    const mine = await mailbox.receive({ maxMessages: 2, visibilityTimeoutMs: 50 });
    site.trouble = "never sent";
    await assertRejects(() => mailbox.acknowledgeMany(mine), MailboxConnectionError);
    const theirs = [
      ...await other.receive({ waitTimeMs: 5_000 }),
      ...await other.receive({ waitTimeMs: 5_000 }),
    ];
    await theirs[1]!.acknowledge();
    site.trouble = "none";
    assertEquals(await mailbox.acknowledgeMany(mine), [false, false]);
    assertEquals(await other.acknowledgeMany([theirs[0]!]), [true]);
  });

  it("a repeated acknowledgement succeeds within an extended lease", async () => {
    await using site = await openTroubled();
    const { mailbox } = site;
    await mailbox.send("work");
    const [message] = await mailbox.receive({ visibilityTimeoutMs: 1_000 });
    await message!.extendVisibility(60_000);
    site.trouble = "answer lost";
    await assertRejects(() => message!.acknowledge(), MailboxConnectionError);
    site.trouble = "none";
    await new Promise((resolve) => setTimeout(resolve, 1_050));
    await message!.acknowledge();
  });

  it("a repeated deadLetter succeeds and stores one dead letter", async () => {
    await using site = await openTroubled();
    const { mailbox } = site;
    await mailbox.send("work");
    const [message] = await mailbox.receive();
    site.trouble = "answer lost";
    await assertRejects(() => message!.deadLetter({ reason: "test" }), MailboxConnectionError);
    site.trouble = "none";
    await message!.deadLetter({ reason: "test" });
    assertEquals(await mailbox.deadLetters.approximateCount(), 1);
  });

  it("a repeated release or nack succeeds although another worker has the message", async () => {
    await using site = await openTroubled();
    const { mailbox, other } = site;
    for (const call of ["release", "nack"] as const) {
      await mailbox.send(call);
      const [message] = await mailbox.receive();
      site.trouble = "answer lost";
      await assertRejects(() => message![call](), MailboxConnectionError);
      const [theirs] = await other.receive();
      assertEquals(theirs?.body, call);
      site.trouble = "none";
      await message![call]();
      assertEquals(await other.acknowledgeMany([theirs!]), [true], "the other worker keeps it");
    }
  });

  it("a lost acknowledgement makes no other call succeed", async () => {
    await using site = await openTroubled();
    const { mailbox } = site;
    await mailbox.send("work");
    const [message] = await mailbox.receive();
    site.trouble = "answer lost";
    await assertRejects(() => message!.acknowledge(), MailboxConnectionError);
    site.trouble = "none";
    await assertRejects(() => message!.extendVisibility(1_000), ReceiptHandleExpiredError);
    await assertRejects(() => message!.release(), ReceiptHandleExpiredError);
    await assertRejects(() => message!.deadLetter({ reason: "test" }), ReceiptHandleExpiredError);
    await message!.acknowledge();
  });

  it("an acknowledgement whose answer was lost succeeds when repeated after a lost extension", async () => {
    await using site = await openTroubled();
    const { mailbox } = site;
    await mailbox.send("work");
    const [message] = await mailbox.receive();
    site.trouble = "answer lost";
    await assertRejects(() => message!.acknowledge(), MailboxConnectionError);
    await assertRejects(() => message!.extendVisibility(60_000), MailboxConnectionError);
    await assertRejects(() => message!.saveCheckpoint(1), MailboxConnectionError);
    site.trouble = "none";
    await message!.acknowledge();
  });

  it("the counts of a loop are right although answers are cut off", own, async () => {
    await using server = await PrivateServer.start(redis);
    await using proxy = await BreakingProxy.before(server.port);
    await using mailbox = await RedisMailbox.open<number>(`redis://127.0.0.1:${proxy.port}`, {
      log: silentLog,
    });
    const jobs = Array.from({ length: 400 }, (_, i) => i);
    await mailbox.sendMany(jobs);
    const seen: number[] = [];
    await using loop = new MailboxLoop({
      mailbox,
      handler: ({ body }) => void seen.push(body),
      concurrency: 10,
      prefetch: 0, // enough receives for the cuts
      log: silentLog,
    });
    let replies = 0;
    proxy.onReply = () => ++replies % 6 === 0 && proxy.cuts < 8 ? "cut" : "pass";
    const running = loop.run({ visibilityTimeoutMs: 60_000 });
    await eventually(() => Promise.resolve(assertEquals(loop.counts.acknowledged, 400)));
    await loop.shutdown();
    await running;
    const { received, acknowledged, leftToExpire } = loop.counts;
    assertEquals([received, acknowledged, leftToExpire], [400, 400, 0]);
    assertEquals(seen.sort((a, b) => a - b), jobs);
    assertEquals(proxy.cuts, 8);
  });
});
