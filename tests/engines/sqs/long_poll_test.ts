import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { eventually } from "../_servers.ts";
import { clientFor, gate, openForTest, useServer } from "./_sqs.ts";

/** Returns a client that records the receive requests and whether they are answered. */
function watched() {
  const client = clientFor();
  const polls: { readonly waitS: number; readonly visibilityS: number; over: boolean }[] = [];
  const hiddenForS: number[] = [];
  return {
    polls,
    /** The visibility timeouts that were set, in seconds. */
    hiddenForS,
    long: () => polls.filter(({ waitS }) => waitS > 0),
    client: {
      async send(command: { readonly input: object }, options?: object): Promise<unknown> {
        const { WaitTimeSeconds: waitS, VisibilityTimeout: visibilityS, Entries = [] } = command
          .input as {
            readonly WaitTimeSeconds?: number;
            readonly VisibilityTimeout?: number;
            readonly Entries?: { readonly VisibilityTimeout?: number }[];
          };
        hiddenForS.push(
          ...Entries.flatMap(({ VisibilityTimeout: s }) => s === undefined ? [] : [s]),
        );
        if (waitS === undefined) return await client.send(command as never, options as never);
        const poll = { waitS, visibilityS: visibilityS ?? -1, over: false };
        polls.push(poll);
        try {
          return await client.send(command as never, options as never);
        } finally {
          poll.over = true;
        }
      },
    },
  };
}

const until = (done: () => boolean) => eventually(() => Promise.resolve(assert(done())));

describe("a waiting receive on SQS", gate, () => {
  useServer();

  it("waiting receives share one request", async () => {
    const { client, polls, long } = watched();
    await using it = await openForTest({ client });
    const waiting = [it.mailbox.receive({ waitTimeMs: 60_000 })];
    await until(() => long().length === 1);
    for (let i = 0; i < 4; i++) waiting.push(it.mailbox.receive({ waitTimeMs: 60_000 }));
    await it.mailbox.sendMany([1, 2, 3, 4, 5]);
    const bodies = (await Promise.all(waiting)).flat().map(({ body }) => body);
    assertEquals(bodies.toSorted(), [1, 2, 3, 4, 5]);
    assertEquals(polls.map(({ waitS }) => waitS).slice(0, 2), [0, 20]);
  });

  it("a receive uses the open request of an earlier one", async () => {
    const { client, long } = watched();
    await using it = await openForTest({ client });
    for (let i = 0; i < 3; i++) {
      assertEquals(await it.mailbox.receive({ waitTimeMs: 20 }), []);
    }
    const waiting = it.mailbox.receive({ waitTimeMs: 60_000 });
    await it.mailbox.send("work");
    assertEquals((await waiting)[0]?.body, "work");
    assertEquals(long().length, 1);
  });

  it("messages that arrive when no receive waits are released", async () => {
    const { client, long, hiddenForS } = watched();
    await using it = await openForTest({ client });
    await using other = await openForTest({ name: it.name });
    await it.mailbox.receive({ waitTimeMs: 20 });
    await until(() => long().length === 1);
    await other.mailbox.send("work");
    await until(() => long()[0]!.over);
    const [message] = await other.mailbox.receive({ waitTimeMs: 60_000 });
    assertEquals([message?.body, message?.deliveryCount], ["work", 2]);
    assertEquals(hiddenForS, [0]);
    await message!.acknowledge();
  });

  it("the request hides messages for 10 s, and the receive sets its own visibility timeout", async () => {
    const { client, long, hiddenForS } = watched();
    await using it = await openForTest({ client });
    const waiting = it.mailbox.receive({ waitTimeMs: 60_000, visibilityTimeoutMs: 3_600_000 });
    await until(() => long().length === 1);
    assertEquals(long()[0]!.visibilityS, 10);
    await it.mailbox.send("work");
    const [message] = await waiting;
    assertEquals(hiddenForS, [3_600]);
    assertEquals(await it.mailbox.extendMany!([message!], 3_500_000), [true]);
    assertEquals(hiddenForS, [3_600], "an extension that changes nothing needs no request");
  });

  for (const which of ["the mailbox", "its dead letters"]) {
    it(`a close ends the open request of ${which} at once`, async () => {
      const { client, long } = watched();
      await using it = await openForTest({ client });
      const mailbox = which === "the mailbox" ? it.mailbox : it.mailbox.deadLetters;
      const waiting = mailbox.receive({ waitTimeMs: 60_000 });
      await until(() => long().length === 1);
      const startedAt = performance.now();
      await it.mailbox.close();
      assertEquals(await waiting, []);
      await until(() => long()[0]!.over);
      assert(performance.now() - startedAt < 5_000, "before its wait time passes");
    });
  }
});
