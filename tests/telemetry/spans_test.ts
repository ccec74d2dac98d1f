import { SpanStatusCode, trace } from "@opentelemetry/api";
import type { ReadableSpan } from "@opentelemetry/sdk-trace";
import { describe, it } from "node:test";
import { assert, assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { deferred } from "../../src/_promises.ts";
import { LoopGroup } from "../../src/group/loop_group.ts";
import { ShutdownCoordinator } from "../../src/lifecycle/shutdown_coordinator.ts";
import { silentLog } from "../../src/log.ts";
import { FakeRuntime } from "../../src/testing/fake_runtime.ts";
import { FaultyMailbox } from "../../src/testing/faulty_mailbox.ts";
import { Worker } from "../loops/_worker.ts";
import { kindOf, Sdk } from "./_sdk.ts";

const tracer = () => trace.getTracer("shop");
const idOf = (span: ReadableSpan) => span.spanContext().spanId;
const traceIdOf = (span: ReadableSpan) => span.spanContext().traceId;
const parentOf = (span: ReadableSpan) => span.parentSpanContext?.spanId;

describe("a message with a registered tracer", () => {
  it("a message with a registered tracer has a send span and a process span, which is the parent of the spans of the handler", async () => {
    await using sdk = await Sdk.start();
    const worker = new Worker();
    await tracer().startActiveSpan("order", async (span) => {
      await worker.mailbox.send(7);
      span.end();
    });
    const [peeked] = await worker.mailbox.peek(1);
    await worker.workOff(worker.loop(async () => {
      await Promise.resolve();
      tracer().startActiveSpan("bake", (span) => span.end());
    }));
    const [order, send] = [sdk.span("order"), sdk.span("send jobs")];
    const [process, bake] = [sdk.span("process jobs"), sdk.span("bake")];
    assertEquals([order, send, process].map(kindOf), ["INTERNAL", "PRODUCER", "CONSUMER"]);
    assertEquals([send, process, bake].map(parentOf), [order, send, process].map(idOf));
    assertEquals(new Set([order, send, process, bake].map(traceIdOf)).size, 1);
    assertEquals(send.attributes, {
      "messaging.system": "lastcall",
      "messaging.destination.name": "jobs",
      "messaging.operation.name": "send",
      "messaging.operation.type": "send",
      "messaging.message.id": peeked!.id,
    });
    assertEquals(process.attributes, {
      "messaging.system": "lastcall",
      "messaging.destination.name": "jobs",
      "messaging.operation.name": "process",
      "messaging.operation.type": "process",
      "messaging.message.id": peeked!.id,
      "lastcall.attempt": 1,
      "lastcall.outcome": "acknowledged",
    });
    assertEquals(process.status.code, SpanStatusCode.UNSET);
  });

  it("a message with a registered tracer carries the trace context of its send span", async () => {
    await using sdk = await Sdk.start();
    const { mailbox } = new Worker();
    await mailbox.send(1);
    const [message] = await mailbox.receive();
    const { traceId, spanId } = sdk.span("send jobs").spanContext();
    assertEquals(message!.headers, { traceparent: `00-${traceId}-${spanId}-01` });
  });

  it("a message with a registered tracer shares one send span with the other messages of a batch", async () => {
    await using sdk = await Sdk.start();
    const { mailbox } = new Worker();
    assertEquals(await mailbox.sendMany([]), []);
    await mailbox.sendMany([1, 2, 3]);
    const send = sdk.span("send jobs");
    assertEquals(send.attributes["messaging.batch.message_count"], 3);
    for (const message of await mailbox.receive({ maxMessages: 3 })) {
      assert(message.headers.traceparent?.includes(idOf(send)));
    }
  });

  it("a message with a registered tracer keeps the trace in the headers of send, and its spans continue that trace", async () => {
    await using sdk = await Sdk.start();
    const worker = new Worker();
    const given = {
      traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      tracestate: "shop=1",
    };
    await worker.mailbox.send(1, { headers: given });
    let carried: unknown;
    await worker.workOff(worker.loop(({ headers }) => void (carried = headers)));
    assertEquals(carried, given);
    for (const span of [sdk.span("send jobs"), sdk.span("process jobs")]) {
      assertEquals([traceIdOf(span), parentOf(span)], [
        "0af7651916cd43dd8448eb211c80319c",
        "b7ad6b7169203331",
      ]);
      assertEquals(span.spanContext().traceState?.serialize(), "shop=1");
    }
  });

  it("a message with a registered tracer starts a new trace when it has none, also when the loop was started in a span", async () => {
    const worker = new Worker();
    await worker.fill(1);
    await using sdk = await Sdk.start();
    await tracer().startActiveSpan("start", async (span) => {
      await worker.workOff(worker.loop(() => {}));
      span.end();
    });
    const process = sdk.span("process jobs");
    assertEquals(parentOf(process), undefined);
    assertNotEquals(traceIdOf(process), traceIdOf(sdk.span("start")));
  });

  it("a message with a registered tracer has the errors of its handler in its spans and stays in one trace", async () => {
    await using sdk = await Sdk.start();
    const worker = new Worker();
    await worker.fill(1);
    const failing = () => Promise.reject(new TypeError("out of paper"));
    await worker.workOff(worker.loop(failing, { deadLetter: { maxDeliveries: 2 } }));
    const spans = sdk.spans.filter(({ name }) => name === "process jobs");
    assertEquals(spans.map(({ attributes }) => attributes["lastcall.outcome"]), [
      "nacked",
      "dead_lettered",
    ]);
    assertEquals(spans.map(({ attributes }) => attributes["lastcall.attempt"]), [1, 2]);
    assertEquals(new Set(spans.map(traceIdOf)).size, 1);
    for (const { status, events, attributes } of spans) {
      assertEquals(status, { code: SpanStatusCode.ERROR, message: "out of paper" });
      assertEquals(events.map(({ name }) => name), ["exception"]);
      assertEquals(attributes["error.type"], "TypeError");
    }
  });

  it("a message with a registered tracer has the outcome released in its span after a cancelled handler", async () => {
    await using sdk = await Sdk.start();
    const worker = new Worker();
    await worker.fill(1);
    const loop = worker.loop((_, { signal }) => worker.clock.sleep(Infinity, { signal }));
    const run = loop.run();
    await worker.clock.settle();
    await worker.clock.until(loop.shutdown({ timeoutMs: 5_000 }));
    await run;
    const { attributes, status } = sdk.span("process jobs");
    assertEquals([attributes["lastcall.outcome"], status.code], ["released", SpanStatusCode.UNSET]);
  });

  it("a message with a registered tracer has an error in its send span when sending fails", async () => {
    await using sdk = await Sdk.start();
    const mailbox = new FaultyMailbox<number>("jobs", { log: silentLog });
    mailbox.loseConnection();
    const error = await assertRejects(() => mailbox.send(1), Error);
    const { status, attributes } = sdk.span("send jobs");
    assertEquals(status, { code: SpanStatusCode.ERROR, message: error.message });
    assertEquals(attributes["error.type"], "MailboxConnectionError");
  });
});

describe("without a registered tracer", () => {
  it("without a registered tracer messages carry no trace context", async () => {
    const { mailbox } = new Worker();
    await mailbox.send(1);
    const [message] = await mailbox.receive();
    assertEquals(message!.headers, {});
  });

  it("without a registered tracer messages get spans as soon as a tracer is registered", async () => {
    const worker = new Worker();
    await worker.fill(2);
    const second = deferred();
    let sdk: Sdk | undefined;
    const loop = worker.loop(async () => {
      if (sdk !== undefined) return second.resolve();
      sdk = await Sdk.start();
    });
    const run = loop.run();
    await second.promise;
    await worker.clock.until(loop.shutdown());
    await run;
    await using started = sdk!;
    assertEquals(started.spans.map(({ name }) => name), ["process jobs"]);
  });
});

describe("a tracer that throws", () => {
  it("a tracer that throws does not prevent the handler, which runs once per message", async () => {
    const warnings: string[] = [];
    const log = { ...silentLog, warn: (text: string) => void warnings.push(text) };
    const worker = new Worker();
    await worker.fill(2);
    await using _ = await Sdk.start();
    trace.disable();
    const span = { setAttribute: () => bang() };
    const tracers = [{ startSpan: () => bang() }, { startSpan: () => span }];
    const bang = () => {
      throw new Error("bang");
    };
    trace.setGlobalTracerProvider({ getTracer: () => tracers.shift() ?? tracer() } as never);
    const bodies: number[] = [];
    const loop = worker.loop(({ body }) => void bodies.push(body), { log });
    await worker.workOff(loop);
    assertEquals([bodies, loop.counts.acknowledged], [[1, 2], 2]);
    assertEquals(warnings.length, 2, warnings.join("; "));
  });
});

describe("the stop of a group", () => {
  it("the stop of a group is a span with its phases, and ends before the resources stop", async () => {
    await using sdk = await Sdk.start();
    const worker = new Worker();
    const { clock } = worker;
    await worker.fill(1);
    const loop = worker.loop(() => clock.sleep(3_000));
    const stoppedWith: string[] = [];
    const exporter = {
      name: "exporter",
      stop: () => void stoppedWith.push(...sdk.spans.map(({ name }) => name)),
    };
    const runtime = new FakeRuntime();
    const options = {
      clock,
      runtime,
      log: silentLog,
      resources: [exporter],
      unreadyDelayMs: 1_000,
    };
    const run = new LoopGroup([loop], options).run();
    await clock.settle();
    runtime.send("SIGTERM");
    await clock.until(run);
    ShutdownCoordinator.reset();
    const stop = sdk.span("lastcall.stop");
    assertEquals(stop.events.map(({ name }) => name), ["unready", "draining"]);
    assertEquals(stop.duration, [3, 0]);
    assertEquals(stop.attributes, {
      "lastcall.stop.kind": "signal",
      "lastcall.stop.reason": "SIGTERM",
      "lastcall.stop.loops": 1,
      "lastcall.stop.hung": 0,
    });
    assert(stoppedWith.includes("lastcall.stop"));
  });

  it("the stop of a group is a span with an error that names the loops that did not end in time", async () => {
    await using sdk = await Sdk.start();
    const worker = new Worker();
    const { clock } = worker;
    await worker.fill(1);
    const loop = worker.loop(() => new Promise(() => {}));
    const options = { clock, runtime: new FakeRuntime(), log: silentLog };
    const group = new LoopGroup([loop], options);
    const run = group.run();
    await clock.settle();
    await clock.until(group.shutdown({ timeoutMs: 5_000 }));
    await clock.until(run);
    const { status, events, attributes } = sdk.span("lastcall.stop");
    assertEquals(events.map(({ name }) => name), ["unready", "draining", "cancelling"]);
    assertEquals(attributes["lastcall.stop.hung"], 1);
    assertEquals(status, { code: SpanStatusCode.ERROR, message: "not ended in time: jobs" });
  });
});
