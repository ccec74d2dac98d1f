import { describe, it } from "node:test";
import { assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { redrive } from "../../src/loops/redrive.ts";
import { MailboxFullError } from "../../src/mailbox/errors.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import type { Mailbox } from "../../src/mailbox/mailbox.ts";
import { NullMailbox, VirtualClock } from "../../src/testing/mod.ts";

async function withLetters(mailbox: Mailbox<number>, bodies: readonly number[]): Promise<void> {
  for (const body of bodies) {
    await mailbox.send(body);
    const [message] = await mailbox.receive();
    await message!.deadLetter({ reason: "test" });
  }
}

async function lettersThere(mailbox: Mailbox<number>): Promise<unknown[]> {
  const letters = await mailbox.deadLetters!.receive({ maxMessages: 10 });
  return letters.map(({ body }) => body.body);
}

describe("redrive with ids", () => {
  it("two redrives of the same id at the same time store the message once", async () => {
    const mailbox = new InMemoryMailbox<number>("orders");
    await mailbox.send(1, { id: "order-7" });
    const [message] = await mailbox.receive();
    await message!.deadLetter({ reason: "test" });
    const ids = ["order-7"];
    const counts = await Promise.all([redrive(mailbox, { ids }), redrive(mailbox, { ids })]);
    assertEquals(counts.toSorted(), [0, 1]);
    assertEquals(await mailbox.approximateCount(), 1);
    assertEquals(await lettersThere(mailbox), []);
  });

  it("a redrive that another process has overtaken leaves the next letter with the same id", async () => {
    const clock = new VirtualClock();
    const mailbox = new InMemoryMailbox<number>("orders", { clock });
    for (const body of [1, 2]) {
      await mailbox.send(body, { id: "order-7" });
      const [message] = await mailbox.receive();
      await message!.deadLetter({ reason: "test" });
      await clock.advance(1_000);
    }
    const send = mailbox.send.bind(mailbox);
    const overtaken = async (...args: Parameters<typeof send>) => {
      mailbox.send = send;
      assertEquals(await redrive(mailbox, { ids: ["order-7"] }), 1);
      const [message] = await mailbox.receive();
      await message!.acknowledge();
      return await send(...args);
    };
    mailbox.send = overtaken;
    assertEquals(await redrive(mailbox, { ids: ["order-7"] }), 0);
    assertEquals(await lettersThere(mailbox), [2]);
  });

  it("receives no dead letter of other ids", async () => {
    const mailbox = new InMemoryMailbox<number>("orders");
    await withLetters(mailbox, [1, 2, 3]);
    const received: number[] = [];
    const letters = mailbox.deadLetters;
    const receive = letters.receive.bind(letters);
    letters.receive = async (options) => {
      const messages = await receive(options);
      received.push(...messages.map(({ body }) => body.body!));
      return messages;
    };
    const [, second] = await letters.peek!(2);
    assertEquals(await redrive(mailbox, { ids: [second!.id] }), 1);
    assertEquals(received, []);
    assertEquals((await letters.peek!(10)).map(({ deliveryCount }) => deliveryCount), [0, 0]);
  });

  it("respects the filter and the limit, and reports each dead letter", async () => {
    const mailbox = new InMemoryMailbox<number>("orders");
    await withLetters(mailbox, [1, 2, 3, 4]);
    const ids = (await mailbox.deadLetters.peek!(10)).map(({ id }) => id);
    const redriven: (number | undefined)[] = [];
    const options = {
      ids,
      maxMessages: 2,
      only: ({ body }: { body?: number }) => body !== 1,
      onRedriven: ({ body }: { body?: number }) => void redriven.push(body),
    };
    assertEquals(await redrive(mailbox, options), 2);
    assertEquals(redriven, [2, 3]);
    assertEquals(await lettersThere(mailbox), [1, 4]);
  });

  it("refuses invalid ids before it redrives any", async () => {
    const mailbox = new InMemoryMailbox<number>("orders");
    await withLetters(mailbox, [1]);
    const [letter] = await mailbox.deadLetters.peek!(1);
    for (const ids of ["order-7", [letter!.id, 7]] as unknown as string[][]) {
      await assertRejects(() => redrive(mailbox, { ids }), TypeError, "Invalid id");
    }
    assertEquals(await mailbox.approximateCount(), 0);
  });
});

describe("redrive", () => {
  it("gives back at once what does not fit into the mailbox", async () => {
    const mailbox = new InMemoryMailbox<number>("orders", { maxSize: 1 });
    await withLetters(mailbox, [1, 2, 3]);
    await assertRejects(() => redrive(mailbox), MailboxFullError);
    assertEquals(await mailbox.approximateCount(), 1, "one has found room");
    assertEquals(await lettersThere(mailbox), [2, 3]);
  });

  it("keeps a letter whose id is taken when there is no room for another message", async () => {
    const mailbox = new InMemoryMailbox<number>("orders", { maxSize: 1 });
    await mailbox.send(1, { id: "order-7" });
    const [message] = await mailbox.receive();
    await message!.deadLetter({ reason: "test" });
    await mailbox.send(2, { id: "order-7" });
    await assertRejects(() => redrive(mailbox), MailboxFullError);
    assertEquals(await mailbox.approximateCount(), 1, "the waiting message is untouched");
    assertEquals(await lettersThere(mailbox), [1]);
  });

  it("keeps the old id where it is free, and gives a new one where it is taken", async () => {
    const mailbox = new InMemoryMailbox<number>("orders");
    for (const body of [1, 2]) {
      await mailbox.send(body, { id: "order-7" });
      const [message] = await mailbox.receive();
      await message!.deadLetter({ reason: "test" });
    }
    assertEquals(await redrive(mailbox), 2);
    const [first, second] = await mailbox.receive({ maxMessages: 10 });
    assertEquals([first!.id, first!.body, second!.body], ["order-7", 1, 2]);
    assertNotEquals(second!.id, "order-7");
  });

  it("gives back everything when the filter throws", async () => {
    const mailbox = new InMemoryMailbox<number>("orders");
    await withLetters(mailbox, [1, 2, 3]);
    const only = ({ body }: { body?: number }) => {
      if (body === 3) throw new TypeError("cannot tell");
      return false;
    };
    await assertRejects(() => redrive(mailbox, { only }), TypeError, "cannot tell");
    assertEquals(await lettersThere(mailbox), [1, 2, 3]);
  });

  it("may take longer than it can hold what it passes over", async () => {
    const clock = new VirtualClock();
    const mailbox = new InMemoryMailbox<number>("orders", { clock });
    await withLetters(mailbox, [1, 2, 3]);
    const send = mailbox.send.bind(mailbox);
    mailbox.send = async (...parameters) => {
      await clock.sleep(45_000);
      return await send(...parameters);
    };
    const only = ({ body }: { body?: number }) => body !== 1;
    assertEquals(await clock.until(redrive(mailbox, { only })), 2);
    assertEquals(await lettersThere(mailbox), [1]);
  });

  it("looks at each letter once, however long that takes", async () => {
    const clock = new VirtualClock();
    const mailbox = new InMemoryMailbox<number>("orders", { clock });
    await withLetters(mailbox, [1, 2, 3, 4]);
    const { deadLetters } = mailbox;
    const receive = deadLetters.receive.bind(deadLetters);
    deadLetters.receive = async (options) => {
      await clock.sleep(25_000);
      return await receive(options);
    };
    const seen: unknown[] = [];
    const only = ({ body }: { body?: number }) => {
      seen.push(body);
      if (seen.length > 4) throw new Error(`${body} came again`);
      return false;
    };
    assertEquals(await clock.until(redrive(mailbox, { only, clock })), 0);
    assertEquals(seen, [1, 2, 3, 4]);
    deadLetters.receive = receive;
    assertEquals(await lettersThere(mailbox), [1, 2, 3, 4]);
    assertEquals(clock.pending, 0);
  });

  it("cannot be had where there are no dead letters", async () => {
    const mailbox = new NullMailbox<number>("nowhere");
    assertEquals(await redrive(mailbox), 0);
    const without = { name: "bare" } as Mailbox<number>;
    await assertRejects(() => redrive(without), TypeError, "keeps no dead letters");
  });
});
