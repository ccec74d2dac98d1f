import { assertEquals } from "@std/assert";
import { redrive } from "../../loops/redrive.ts";
import type { DeadLetter } from "../../mailbox/mailbox.ts";
import { deadLetter } from "./dead_letters.ts";
import { type MailboxCase, type Setup, topic } from "./mailbox_case.ts";

const holds = topic("dead letters", { needs: ["deadLetters"] });
const byId = topic("dead letters", { requires: ["lookup"], needs: ["deadLetters"] });

/** Dead letters are found, deleted and redriven by the ids of their messages. */
export const deadLettersById: readonly MailboxCase[] = [
  byId("a dead letter is found and deleted by the id of its message", async (setup) => {
    const { mailbox } = setup;
    const ids = (await mailbox.sendMany([1, 2, 3])).map(({ id }) => id);
    await mailbox.send("chosen", { id: "order 7/'ü'" });
    await deadLetter(setup, 4, "test");
    for (const [id, body] of [[ids[1]!, 2], ["order 7/'ü'", "chosen"]] as const) {
      const found = await mailbox.deadLetters.get(id);
      assertEquals([found?.body.id, found?.body.body, found?.body.reason], [id, body, "test"]);
      assertEquals(await mailbox.deadLetters.cancel(id), true);
      assertEquals(await mailbox.deadLetters.get(id), undefined);
      assertEquals(await mailbox.deadLetters.cancel(id), false);
    }
    assertEquals(await lettersOf(setup), [1, 3]);
    assertEquals(await mailbox.get(ids[0]!), undefined, "it is no message of the mailbox");
  }),

  byId("of dead letters with the same id, the oldest not in flight is found", async (setup) => {
    const { mailbox } = setup;
    for (const body of ["first", "second", "third", "fourth"]) {
      await mailbox.send(body, { id: "order-7" });
      await deadLetter(setup, 1, "test");
      // Engines may find letters that are far from each other in another way.
      await mailbox.sendMany(Array(100).fill("other"));
      await deadLetter(setup, 100, "test");
    }
    const deleteNext = async () => {
      const found = await mailbox.deadLetters.get("order-7");
      if (found !== undefined) assertEquals(await mailbox.deadLetters.cancel("order-7"), true);
      return [found?.body.body, found?.state];
    };
    const [oldest] = await mailbox.deadLetters.receive();
    assertEquals(await deleteNext(), ["second", "waiting"]);
    await oldest!.release();
    assertEquals(await deleteNext(), ["first", "waiting"], "a release keeps the order");
    await mailbox.deadLetters.receive({ maxMessages: 1_000 });
    assertEquals(await deleteNext(), ["third", "inFlight"]);
    assertEquals(await deleteNext(), ["fourth", "inFlight"]);
    assertEquals(await deleteNext(), [undefined, undefined]);
    assertEquals(await mailbox.deadLetters.cancel("order-7"), false);
  }),

  holds("a redrive with ids redrives these dead letters only", async (setup) => {
    const { mailbox } = setup;
    const ids = (await mailbox.sendMany([1, 2, 3, 4])).map(({ id }) => id);
    await deadLetter(setup, 4, "test");
    const redriven: string[] = [];
    const onRedriven = ({ id }: DeadLetter<unknown>) => void redriven.push(id);
    const chosen = [ids[3]!, "unknown", ids[1]!];
    assertEquals(await redrive(mailbox, { ids: chosen, onRedriven }), 2);
    assertEquals(redriven.toSorted(), [ids[1]!, ids[3]!].toSorted());
    const messages = await mailbox.receive({ maxMessages: 10 });
    assertEquals(messages.map(({ id }) => id).sort(), redriven.toSorted());
    assertEquals(await lettersOf(setup), [1, 3]);
    assertEquals(await redrive(mailbox, { ids: [] }), 0);
    assertEquals(await redrive(mailbox, { ids: [ids[3]!] }), 0, "it is no dead letter any more");
  }),

  holds("each id of a redrive stands for one dead letter, the oldest first", async (setup) => {
    const { mailbox } = setup;
    for (const body of ["first", "second", "third"]) {
      await mailbox.send(body, { id: "order-7" });
      await deadLetter(setup, 1, "test");
    }
    assertEquals(await redrive(mailbox, { ids: ["order-7"] }), 1);
    assertEquals(await redrive(mailbox, { ids: ["order-7"] }), 1);
    assertEquals(await mailbox.deadLetters.approximateCount(), 1);
    assertEquals(await redrive(mailbox, { ids: ["order-7", "order-7"] }), 1);
    const bodies = await setup.receiveAndAcknowledge();
    assertEquals(bodies.toSorted(), ["first", "second", "third"]);
    if (mailbox.capabilities.fifo) assertEquals(bodies, ["first", "second", "third"]);
  }),

  byId("a redrive with ids leaves a dead letter that a process has received", async (setup) => {
    const { mailbox } = setup;
    const { id } = await mailbox.send("work");
    await deadLetter(setup, 1, "test");
    const held = await setup.receiveOne({}, mailbox.deadLetters);
    assertEquals(await redrive(mailbox, { ids: [id] }), 0);
    assertEquals(await mailbox.approximateCount(), 0);
    await held.release();
    assertEquals(await redrive(mailbox, { ids: [id] }), 1);
    assertEquals(await setup.receiveAndAcknowledge(), ["work"]);
  }),
];

/** Returns the bodies of all dead letters, sorted. */
async function lettersOf({ mailbox }: Setup): Promise<unknown[]> {
  const letters = await mailbox.deadLetters.receive({ maxMessages: 100 });
  return letters.map(({ body }) => body.body).sort();
}
