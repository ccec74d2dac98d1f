import { assertEquals } from "@std/assert";
import { redrive } from "../../loops/redrive.ts";
import type { TraceContext } from "../../telemetry/trace_context.ts";
import { refused, topic } from "./_bench.ts";
import type { MailboxCase } from "./mailbox_case.ts";

const TRACE: TraceContext = {
  traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  tracestate: 'shop={"a":1},"body":,other=}}',
};
const OTHER: TraceContext = {
  traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
};

const holds = topic("traces", { needs: ["trace"] });

/** A message carries the trace it was sent in, and its body is none the wiser. */
export const traces: readonly MailboxCase[] = [
  holds("a message has the trace it was sent with", async (bench) => {
    await bench.mailbox.send({ n: 1 }, { trace: TRACE });
    const message = await bench.take();
    assertEquals([message.body, message.trace], [{ n: 1 }, TRACE]);
    await message.acknowledge();
    await bench.mailbox.sendMany(["a", "b"], { trace: OTHER });
    for (const { body, trace } of await bench.mailbox.receive({ maxMessages: 2 })) {
      assertEquals([typeof body, trace], ["string", OTHER]);
    }
  }),

  holds("a message that was sent without a trace has none", async (bench) => {
    await bench.mailbox.send({ n: 1 });
    const { body, trace } = await bench.take();
    assertEquals([body, trace], [{ n: 1 }, undefined]);
  }),

  holds("any body comes back as it was sent with a trace", async (bench) => {
    for (const body of [null, false, 0, "", [], {}, "ü {}", [[null]]]) {
      await bench.mailbox.send(body, { trace: TRACE });
      const message = await bench.take();
      assertEquals([message.body, message.trace], [body, TRACE]);
      await message.acknowledge();
    }
  }),

  holds("a body that looks like one with a trace comes back as it was sent", async (bench) => {
    const once = { "lastcall:trace": TRACE, body: "mine" };
    for (const body of [once, { "lastcall:trace": {}, body: once }, { "lastcall:trace": 1 }]) {
      for (const trace of [undefined, OTHER]) {
        await bench.mailbox.send(body, trace === undefined ? {} : { trace });
        const message = await bench.take();
        assertEquals([message.body, message.trace], [body, trace]);
        await message.acknowledge();
      }
    }
  }),

  holds("a trace stays with its message, however often that is given back", async (bench) => {
    await bench.mailbox.send("work", { trace: TRACE });
    const first = await bench.take();
    await first.saveCheckpoint({ step: 1 });
    await first.nack();
    await (await bench.take()).release();
    const { body, trace, checkpoint } = await bench.take();
    assertEquals([body, trace, checkpoint], ["work", TRACE, { step: 1 }]);
  }),

  holds("a trace that makes no sense is refused, and nothing is stored", async ({ mailbox }) => {
    const nonsense = [{}, null, { traceparent: "00-1-2-3" }, { ...TRACE, tracestate: "ü" }];
    for (const trace of nonsense as TraceContext[]) {
      await refused("InvalidParameterError", () => mailbox.send("work", { trace }));
      await refused("InvalidParameterError", () => mailbox.sendMany(["a", "b"], { trace }));
    }
    assertEquals(await mailbox.approximateCount(), 0);
  }),

  topic("traces", { needs: ["trace", "peek"] })(
    "a look at a message shows its body without the trace",
    async ({ mailbox }) => {
      await mailbox.send({ n: 1 }, { trace: TRACE });
      assertEquals((await mailbox.peek(1)).map(({ body }) => body), [{ n: 1 }]);
    },
  ),

  topic("traces", { needs: ["trace", "maxBodyBytes"] })(
    "the largest body can be sent with a trace, for which there may be no room",
    async (bench) => {
      const largest = "x".repeat(bench.maxBodyBytes - 2); // and two quotes
      await bench.mailbox.send(largest, { trace: TRACE });
      assertEquals((await bench.take()).body, largest);
    },
  ),

  topic("traces", { needs: ["trace", "deadLetters"] })(
    "a letter keeps the trace of its message, and a redrive goes on with it",
    async (bench) => {
      const { mailbox } = bench;
      await mailbox.send({ n: 1 }, { trace: TRACE });
      await (await bench.take()).bury({ reason: "test" });
      const letter = await bench.take({}, mailbox.deadLetters);
      assertEquals([letter.body.body, letter.body.trace], [{ n: 1 }, TRACE]);
      await letter.release();
      assertEquals(await redrive(mailbox), 1);
      const { body, trace } = await bench.take();
      assertEquals([body, trace], [{ n: 1 }, TRACE]);
    },
  ),
];
