import { describe, it } from "node:test";
import { assert, assertEquals, assertLess } from "@std/assert";
import { connect } from "@nats-io/transport-node";
import { NatsMailbox } from "../../../src/engines/nats/mod.ts";
import { silentLog } from "../../../src/log.ts";
import { BreakingProxy } from "../_proxy.ts";
import { eventually, hasBinary, missing, nats } from "../_servers.ts";
import { startServer } from "./_nats.ts";

const gate = { skip: hasBinary(nats) ? false : missing(nats) };
const CUTS = 100;
const numbers = Array.from({ length: CUTS }, (_, i) => i);

/** The beginnings of the commands of a call. */
const SEND = "PUB lastcall.messages.";
const RECEIVE = "PUB $JS.API.CONSUMER.MSG.NEXT.";
const SETTLE = "PUB $JS.ACK.";

/** Only a bug takes longer, even on a busy machine. */
const BOUND_MS = 30_000;

type Moment = "command" | "reply";

/** Opens a mailbox whose connection the test cuts; the client reconnects immediately. */
async function startSite(): Promise<
  & {
    readonly mailbox: NatsMailbox<number>;
    readonly proxy: BreakingProxy;
    /** Cuts the connection before the next such command, or before its reply. */
    cutNext(command: string, moment: Moment): void;
  }
  & AsyncDisposable
> {
  const server = await startServer();
  const proxy = await BreakingProxy.before(server.port);
  const connection = await connect({
    servers: `127.0.0.1:${proxy.port}`,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 1,
    reconnectJitter: 1,
  });
  const mailbox = await NatsMailbox.open<number>(connection, { name: "orders", log: silentLog });
  return {
    mailbox,
    proxy,
    cutNext(command, moment) {
      let armed = true;
      let asked: number | undefined;
      proxy.onCommand = (text, from) => {
        if (!armed || !text.includes(command)) return "pass";
        armed = false;
        if (moment === "command") return "cut";
        asked = from;
        return "pass";
      };
      proxy.onReply = (_, to) => {
        if (asked !== to) return "pass";
        asked = undefined;
        return "cut";
      };
    },
    async [Symbol.asyncDispose]() {
      await mailbox.close();
      await connection.close();
      await proxy[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

describe("a NATS connection that is cut 100 times", gate, () => {
  for (const moment of ["command", "reply"] as const) {
    it(`NATS stores every message once when the connection is cut before the ${moment} of a send`, async () => {
      await using site = await startSite();
      const { mailbox, proxy, cutNext } = site;
      const from = performance.now();
      for (const body of numbers) {
        cutNext(SEND, moment);
        await eventually(() => mailbox.send(body, { id: `id-${body}` }));
      }
      assertEquals(proxy.cuts, CUTS);
      const messages = await mailbox.receive({ maxMessages: 2 * CUTS });
      assertEquals(messages.map(({ body }) => body).sort((a, b) => a - b), numbers);
      assertLess(performance.now() - from, BOUND_MS);
    });

    it(`NATS removes every message once when the connection is cut before the ${moment} of an acknowledgement`, async () => {
      await using site = await startSite();
      const { mailbox, proxy, cutNext } = site;
      const from = performance.now();
      await mailbox.sendMany(numbers);
      const messages = await mailbox.receive({ maxMessages: CUTS });
      for (const message of messages) {
        cutNext(SETTLE, moment);
        await eventually(() => message.acknowledge());
      }
      assertEquals(proxy.cuts, CUTS);
      assert(messages.every(({ settlement }) => settlement === "acknowledged"));
      assertEquals(await mailbox.approximateCount(), 0);
      assertLess(performance.now() - from, BOUND_MS);
    });
  }

  it("NATS delivers every message once when the connection is cut before the command of a receive", async () => {
    await using site = await startSite();
    const { mailbox, proxy, cutNext } = site;
    const from = performance.now();
    await mailbox.sendMany(numbers);
    const received: number[] = [];
    for (const _ of numbers) {
      cutNext(RECEIVE, "command");
      const [message] = await eventually(() => mailbox.receive());
      assertEquals(message?.deliveryCount, 1);
      received.push(message!.body);
    }
    assertEquals(proxy.cuts, CUTS);
    assertEquals(received, numbers);
    assertLess(performance.now() - from, BOUND_MS);
  });
});
