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
    tickMs: 200,
    pass: realTime,
    lateMs: 200, // a timer of the server redelivers messages
    sibling: open,
    async sendRaw(body) {
      const engine = await openEngine(url, name);
      await engine.send([{ id: crypto.randomUUID(), body, delayMs: 0, dedup: false }]);
      await engine.close();
    },
    maxBodyBytes,
    lacks: ["queues"],
    close: () => cleanUp(name),
  };
};

/** What NATS has of what the cases of fenced acknowledgements need besides. */
const HAS = ["fencedAck", "perReceiveVisibility", "restoresAttempts", "delay", "dedup"];

/** The cases that need fenced acknowledgements, and nothing else that NATS does not have. */
const fencedCases = mailboxCases.filter(({ requires = [] }) => {
  return requires.includes("fencedAck") && requires.every((it) => HAS.includes(it));
});

describe("NatsMailbox", gate, () => {
  hostMailboxCases(make, { engine: "NATS", together: 8 });

  it("skips only the cases of what NATS lacks", async () => {
    const reasons = new Set((await skippedMailboxCases(make)).map(({ why }) => why));
    assertEquals([...reasons].sort(), [
      "the engine has no dedupWindow",
      "the engine has no exactStats",
      "the engine has no fencedAck",
      "the engine has no fifo",
      "the engine has no keys",
      "the engine has no leaseExpiries",
      "the engine has no lookup",
      "the engine has no pause",
      "the engine has no priorities",
      "the engine has no rateLimit",
      "the engine has no requests",
      "there is no queues",
    ]);
    assertEquals(fencedCases.length, 20);
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
  for (const { topic, name, run } of fencedCases) {
    it(`${topic}: ${name}`, () => run(asIfFenced));
  }
});
