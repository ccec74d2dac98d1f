import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { NatsMailbox } from "../../../src/engines/nats/mod.ts";
import { mailboxCases, type MakeMailbox, skippedMailboxCases } from "../../../src/testing/mod.ts";
import { hostMailboxCases, realTime } from "../../mailbox/_hosts.ts";
import { cleanUp, gate, openEngine, uniqueName, url } from "./_nats.ts";

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
      const engine = await openEngine(url, name);
      await engine.send([{ id: crypto.randomUUID(), body, delayMs: 0, dedup: false }]);
      await engine.close();
    },
    maxBodyBytes,
    close: () => cleanUp(name),
  };
};

/** The cases that need a capability which NATS does not have. */
const casesOf = (capability: "fifo" | "fencedAck") =>
  mailboxCases.filter(({ requires = [] }) => requires.includes(capability));

describe("NatsMailbox", gate, () => {
  hostMailboxCases(make, { engine: "NATS", together: 4 });

  it("skips only the cases of strict order and of fenced acknowledgements", async () => {
    const skipped = await skippedMailboxCases(make);
    const names = (capability: "fifo" | "fencedAck") =>
      skipped.filter(({ why }) => why === `the engine has no ${capability}`)
        .map(({ topic, name }) => `${topic}: ${name}`);
    const [order, fence] = [names("fifo"), names("fencedAck")];
    assertEquals(order, casesOf("fifo").map(({ topic, name }) => `${topic}: ${name}`));
    assertEquals(fence, casesOf("fencedAck").map(({ topic, name }) => `${topic}: ${name}`));
    assertEquals([order.length, fence.length, skipped.length], [7, 20, 27]);
  });
});

// The server accepts an ack from an expired lease, but each process refuses its own expired receipt
// handles. While all clocks run, these cases pass.
describe("NatsMailbox, as if the server refused expired receipt handles", gate, () => {
  const asIfFenced: MakeMailbox = async (options) => {
    const fixture = await make(options);
    const capabilities = { ...fixture.mailbox.capabilities, fencedAck: true };
    Object.defineProperty(fixture.mailbox, "capabilities", { value: capabilities });
    return fixture;
  };
  for (const { topic, name, run } of casesOf("fencedAck")) {
    it(`${topic}: ${name}`, () => run(asIfFenced));
  }
});
