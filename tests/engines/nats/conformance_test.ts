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
    lacks: ["queues"],
    close: () => cleanUp(name),
  };
};

/** What a server can do only by a convention of its clients, so that a flag is false. */
type Emulated = "fencedAck" | "exactCount";

/** What NATS has of what these cases need besides. */
const HAS = ["perReceiveVisibility", "restoresAttempts", "delay", "dedup", "longDelays"];

/** The cases that need this capability, and nothing else that NATS does not have. */
const casesOf = (capability: Emulated) =>
  mailboxCases.filter(({ topic, requires = [] }) => {
    const isOwn = requires.some((it) => it === capability) && topic !== "stats";
    return isOwn && requires.every((it) => it === capability || HAS.includes(it));
  });

describe("NatsMailbox", gate, () => {
  hostMailboxCases(make, { engine: "NATS", together: 4 });

  it("skips only the cases of what NATS lacks", async () => {
    const reasons = new Set((await skippedMailboxCases(make)).map(({ why }) => why));
    assertEquals([...reasons].sort(), [
      "the engine has no dedupWindow",
      "the engine has no exactCount",
      "the engine has no fencedAck",
      "the engine has no fifo",
      "the engine has no keys",
      "the engine has no lookup",
      "the engine has no pause",
      "the engine has no priorities",
      "the engine has no requests",
      "there is no queues",
    ]);
    assertEquals([casesOf("fencedAck").length, casesOf("exactCount").length], [20, 1]);
  });
});

// The server accepts an ack from an expired lease, but each process refuses its own expired receipt
// handles. While all clocks run, these cases pass. The count is exact; only the stats are not.
for (const capability of ["fencedAck", "exactCount"] as const) {
  describe(`NatsMailbox, as if it had ${capability}`, gate, () => {
    const asIf: MakeMailbox = async (options) => {
      const fixture = await make(options);
      const capabilities = { ...fixture.mailbox.capabilities, [capability]: true };
      Object.defineProperty(fixture.mailbox, "capabilities", { value: capabilities });
      return fixture;
    };
    for (const { topic, name, run } of casesOf(capability)) {
      it(`${topic}: ${name}`, () => run(asIf));
    }
  });
}
