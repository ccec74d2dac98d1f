import { describe, it } from "node:test";
import { Hono } from "hono";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { deferred } from "../../src/_promises.ts";
import { CancelledError, TerminatingError } from "../../src/errors.ts";
import { drainable, RequestTracker, ServiceGate } from "../../src/service/mod.ts";
import { VirtualClock } from "../../src/testing/mod.ts";

const request = (path = "/tea") => new Request(`http://here${path}`);

/** A response whose body the test writes. */
function handWritten(): {
  readonly response: Response;
  readonly write: (text: string) => void;
  readonly close: () => void;
  readonly cancelled: Promise<unknown>;
} {
  const cancelled = deferred<unknown>();
  let out!: ReadableStreamDefaultController<Uint8Array>;
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => void (out = controller),
    cancel: (reason) => cancelled.resolve(reason),
  });
  return {
    response: new Response(body),
    write: (text) => out.enqueue(new TextEncoder().encode(text)),
    close: () => out.close(),
    cancelled: cancelled.promise,
  };
}

describe("RequestTracker", () => {
  it("RequestTracker counts a stream until it is read to the end", async () => {
    const tracker = new RequestTracker();
    const { response, write, close } = handWritten();
    const answer = await tracker.track(request(), () => response);
    const idle = tracker.idle();
    const reader = answer.body!.getReader();
    write("tea");
    assertEquals(new TextDecoder().decode((await reader.read()).value), "tea");
    assertEquals(tracker.count, 1);
    close();
    assertEquals((await reader.read()).done, true);
    assertEquals([tracker.count, await idle], [0, true]);
  });

  it("RequestTracker counts a stream until its reader cancels, and cancels the source", async () => {
    const tracker = new RequestTracker();
    const { response, cancelled } = handWritten();
    const answer = await tracker.track(request(), () => response);
    await answer.body!.cancel("bored");
    assertEquals([tracker.count, await cancelled], [0, "bored"]);
  });

  it("RequestTracker keeps status and headers, and does not count a response without a body", async () => {
    const tracker = new RequestTracker();
    const empty = await tracker.track(request(), () => new Response(null, { status: 204 }));
    assertEquals([empty.status, tracker.count], [204, 0]);
    const headers = { "x-tea": "green" };
    const full = await tracker.track(request(), () => new Response("x", { status: 418, headers }));
    assertEquals([full.status, full.headers.get("x-tea")], [418, "green"]);
    await full.text();
    assertEquals(tracker.count, 0);
  });

  it("RequestTracker does not count a request whose handler throws or rejects", async () => {
    const tracker = new RequestTracker();
    const fail = () => {
      throw new Error("burnt");
    };
    await assertRejects(async () => await tracker.track(request(), fail), Error, "burnt");
    await assertRejects(
      async () => await tracker.track(request(), () => Promise.reject(new Error("burnt"))),
      Error,
      "burnt",
    );
    assertEquals(tracker.count, 0);
  });

  it("RequestTracker lists requests in flight with their ages and without their queries", async () => {
    const clock = new VirtualClock();
    const tracker = new RequestTracker({ clock });
    const answer = deferred<Response>();
    const first = tracker.track(request("/slow?token=secret"), () => answer.promise);
    await clock.advance(250);
    const post = new Request("http://here/orders", { method: "POST" });
    const second = tracker.track(post, () => answer.promise);
    assertEquals(tracker.inFlight, [
      { id: "GET /slow", ageMs: 250 },
      { id: "POST /orders", ageMs: 0 },
    ]);
    answer.resolve(new Response(null));
    await Promise.all([first, second]);
    assertEquals([tracker.inFlight, clock.pending], [[], 0]);
  });

  it("RequestTracker.idle resolves with false when its signal aborts, and leaves no timer or listener", async () => {
    const clock = new VirtualClock();
    const tracker = new RequestTracker({ clock });
    const answer = deferred<Response>();
    const answered = tracker.track(request(), () => answer.promise);
    const controller = new AbortController();
    const idle = tracker.idle({ signal: controller.signal });
    await clock.settle();
    controller.abort();
    assertEquals([await idle, clock.pending], [false, 0]);
    answer.resolve(new Response(null));
    await answered;
    assertEquals(await tracker.idle(), true);
  });

  it("RequestTracker polls a server that does not report the end of responses", async () => {
    const clock = new VirtualClock();
    const tracker = new RequestTracker({ clock });
    const open = new Set<Request>();
    let asked = 0;
    const server = {
      requestIP: (it: Request) => {
        asked++;
        return open.has(it) ? {} : null;
      },
    };
    const slow = request("/slow");
    open.add(slow);
    const answer = new Response("x");
    assertEquals(await tracker.track(slow, () => answer, server), answer, "nothing is done to it");
    for (let index = 0; index < 10_000; index++) {
      await tracker.track(request(), () => new Response("x"), server);
    }
    assert(asked < 12_000, `asked ${asked} times about 10,001 requests`);
    assertEquals(tracker.inFlight.map(({ id }) => id), ["GET /slow"]);
    const idle = tracker.idle();
    await clock.advance(100);
    open.clear();
    assertEquals(await clock.until(idle), true);
    assertEquals([clock.monotonic() <= 110, clock.pending], [true, 0]);
  });
});

describe("ServiceGate", () => {
  it("ServiceGate answers 503 with code 5006, Retry-After and Connection: close while it is closed", async () => {
    const gate = new ServiceGate({ retryAfterMs: 1_500 });
    gate.close();
    const answer = await gate.handle(request(), () => new Response("tea"));
    assertEquals(
      [answer.status, answer.headers.get("retry-after"), answer.headers.get("connection")],
      [503, "2", "close"],
    );
    assertEquals(answer.headers.get("content-type"), "application/json");
    const { error } = await answer.json();
    assertEquals([error.code, error.name, typeof error.message], [5006, "TERMINATING", "string"]);
  });

  it("ServiceGate lets admitted requests finish, and idle resolves then", async () => {
    const gate = new ServiceGate();
    const work = deferred<Response>();
    const inside = gate.handle(request(), () => work.promise);
    gate.close();
    const idle = gate.idle();
    assertEquals([gate.count, (await gate.handle(request(), () => new Response())).status], [
      1,
      503,
    ]);
    work.resolve(new Response("done"));
    assertEquals(await (await inside).text(), "done");
    assertEquals([await idle, gate.count], [true, 0]);
  });

  it("ServiceGate answers probes and controls while it is closed, and does not count them", async () => {
    const gate = new ServiceGate();
    gate.close();
    for (
      const path of [
        "/health/live",
        "/health",
        "/metrics",
        "/status",
        "/events",
        "/pause",
        "/resume",
      ]
    ) {
      const answer = await gate.handle(request(path), () => new Response("well"));
      assertEquals([path, answer.status, gate.count], [path, 200, 0]);
      await answer.body?.cancel();
    }
    assertEquals((await gate.handle(request("/healthy"), () => new Response())).status, 503);
    const own = new ServiceGate({ exempt: ({ url }) => url.endsWith("/vip") });
    own.close();
    assertEquals((await own.handle(request("/vip"), () => new Response())).status, 200);
    assertEquals((await own.handle(request("/health"), () => new Response())).status, 503);
  });

  it("ServiceGate aborts stopping on close and cancelling on cancel, and renews both on open", () => {
    const gate = new ServiceGate();
    const { stopping, cancelling } = gate;
    gate.close();
    assertEquals([stopping.aborted, cancelling.aborted], [true, false]);
    const reason = new CancelledError("forced", "it");
    gate.cancel(reason);
    assertEquals(cancelling.reason, reason);
    gate.open();
    assertEquals([gate.closed, gate.stopping.aborted, gate.cancelling.aborted], [
      false,
      false,
      false,
    ]);
  });

  it("ServiceGate turns a TerminatingError of a handler into a 503", async () => {
    const gate = new ServiceGate();
    const thrown = await gate.handle(request(), () => {
      throw new TerminatingError("no more");
    });
    const rejected = await gate.handle(request(), () => Promise.reject(new TerminatingError("no")));
    assertEquals([thrown.status, rejected.status, gate.count], [503, 503, 0]);
  });

  it("ServiceGate has metrics by name from zero", async () => {
    const gate = new ServiceGate({ name: "api" });
    const values = () => gate.metrics().flatMap(({ samples }) => samples.map(({ value }) => value));
    assertEquals(values(), [0, 0, 0]);
    await gate.handle(request(), () => new Response("unread"));
    gate.close();
    await gate.handle(request(), () => new Response());
    assertEquals(values(), [1, 1, 1]);
    assertEquals(gate.metrics()[0]?.samples[0]?.labels, { service: "api", outcome: "admitted" });
  });
});

describe("drainable", () => {
  it("drainable guards a Hono app and passes the signals to its handlers", async () => {
    const gate = new ServiceGate();
    const app = new Hono().use(drainable(gate))
      .get("/", (c) => c.text([c.var.stopping, c.var.cancelling].map((it) => it.aborted).join()))
      .get("/health/ready", (c) => c.text("ready"));
    const answer = await app.request("/");
    assertEquals(gate.count, 1, "nobody has read the answer");
    assertEquals([answer.status, await answer.text(), gate.count], [200, "false,false", 0]);
    assertEquals((await app.request("/nowhere")).status, 404);
    gate.close();
    const refused = await app.request("/");
    assertEquals([refused.status, (await refused.json()).error.code], [503, 5006]);
    assertEquals((await app.request("/health/ready")).status, 200);
  });

  it("drainable turns a TerminatingError of a handler into a 503, and leaves other errors to the app", async () => {
    const gate = new ServiceGate();
    const app = new Hono().use(drainable(gate))
      .get("/gives_up", (c) => {
        c.header("x-secret", "half an answer");
        throw new TerminatingError("no more");
      })
      .get("/fails", () => {
        throw new Error("burnt");
      })
      .onError((_, c) => c.text("oops", 500));
    const gaveUp = await app.request("/gives_up");
    assertEquals([gaveUp.status, (await gaveUp.json()).error.code], [503, 5006]);
    assertEquals(gaveUp.headers.get("x-secret"), null);
    const failed = await app.request("/fails");
    assertEquals([failed.status, await failed.text(), gate.count], [500, "oops", 0]);
  });
});
