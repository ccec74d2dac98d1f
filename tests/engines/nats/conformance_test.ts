import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { systemClock } from "../../../src/clock.ts";
import { Backend } from "../../../src/engines/nats/_backend.ts";
import { NatsMailbox } from "../../../src/engines/nats/mod.ts";
import { NatsEngine } from "../../../src/engines/nats/nats_engine.ts";
import { silentLog } from "../../../src/log.ts";
import { mailboxCases, type MakeMailbox, skippedMailboxCases } from "../../../src/testing/mod.ts";
import { hostMailboxCases, realTime } from "../../mailbox/_hosts.ts";
import { cleanUp, gate, uniqueName, url } from "./_nats.ts";

const make: MakeMailbox = async (options) => {
  const name = uniqueName();
  const maxBodyBytes = 4_096;
  const open = () => NatsMailbox.open<unknown>(url, { ...options, name, maxBodyBytes });
  return {
    mailbox: await open(),
    tickMs: 100,
    pass: realTime,
    sibling: open,
    async sendRaw(body) {
      const backend = new Backend(url, {
        clock: systemClock,
        log: silentLog,
        callTimeoutMs: 5_000,
        pollIntervalMs: 5_000,
        replicas: 1,
      });
      await backend.open();
      const engine = new NatsEngine(name, backend, undefined);
      await engine.push([{ id: crypto.randomUUID(), body, delayMs: 0, dedup: false }]);
      await engine.close();
    },
    maxBodyBytes,
    close: () => cleanUp(name),
  };
};

const WITHOUT_ORDER: readonly string[] = [
  "delivery: messages come in the order they were sent",
  "release and nack: a released message keeps its place",
  "release and nack: a batch that is given back comes again in its order",
  "release and nack: messages whose lease has ended keep their place",
  "release and nack: many that are released together keep their places",
  "count, peek and purge: a look shows the oldest first, and as many as asked for",
];

const WITHOUT_FENCE: readonly string[] = [
  "visibility: a visibility of 0 hands a message over and hides it from nobody",
  "receipts: nobody can acknowledge a message from the moment the lease ends",
  "receipts: nobody can acknowledge a message that another has taken",
  "receipts: nobody can nack a message from the moment the lease ends",
  "receipts: nobody can nack a message that another has taken",
  "receipts: nobody can release a message from the moment the lease ends",
  "receipts: nobody can release a message that another has taken",
  "receipts: nobody can bury a message from the moment the lease ends",
  "receipts: nobody can bury a message that another has taken",
  "receipts: nobody can extend a message from the moment the lease ends",
  "receipts: nobody can extend a message that another has taken",
  "receipts: nobody can save the progress of a message from the moment the lease ends",
  "receipts: nobody can save the progress of a message that another has taken",
  "receipts: acknowledgeMany tells for each whether its receipt was good",
  "receipts: releaseMany tells for each whether its receipt was good",
  "receipts: extendMany tells for each whether its receipt was good",
  "receipts: an extension of many leaves out what was given back",
  "concurrency: an acknowledge at the moment its lease ends has one winner",
  "concurrency: an extension at the moment of the acknowledge brings nothing back",
  "count, peek and purge: a purge makes the receipts of what is in flight stale",
];

describe("NatsMailbox", gate, () => {
  hostMailboxCases(make, { engine: "NATS", together: 4 });

  it("shows every case but those of strict order and of a fence on the server", async () => {
    const skipped = await skippedMailboxCases(make);
    const lines = (why: string) =>
      skipped.filter((it) => it.why === `the engine has no ${why}`)
        .map(({ topic, name }) => `${topic}: ${name}`);
    assertEquals(lines("fifo"), WITHOUT_ORDER);
    assertEquals(lines("fencedAck"), WITHOUT_FENCE);
    assertEquals(skipped.length, WITHOUT_ORDER.length + WITHOUT_FENCE.length);
  });
});

// The server has no fence; but each process refuses its own stale receipts. Where all clocks go on, that
// is as good as one.
describe("NatsMailbox, as if it had a fence", gate, () => {
  const asIfFenced: MakeMailbox = async (options) => {
    const fixture = await make(options);
    const capabilities = { ...fixture.mailbox.capabilities, fencedAck: true };
    Object.defineProperty(fixture.mailbox, "capabilities", { value: capabilities });
    return fixture;
  };
  for (const { topic, name, run } of mailboxCases) {
    if (WITHOUT_FENCE.includes(`${topic}: ${name}`)) {
      it(`${topic}: ${name}`, () => run(asIfFenced));
    }
  }
});
