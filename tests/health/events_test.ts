import { describe, it } from "node:test";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { excerpt } from "../../src/health/_broadcast.ts";
import type { HealthOptions, LoopStatus, Status } from "../../src/health/mod.ts";
import { loadHono, serveHealth } from "../../src/health/health_server.ts";
import type { RequestHandler } from "../../src/runtime.ts";
import { FakeRuntime } from "../../src/testing/mod.ts";
import { Fixture } from "./_fixture.ts";

interface Event {
  readonly name: string;
  readonly status: Status;
}

/** Reads a stream of events. */
class EventClient {
  readonly events: Event[] = [];
  ended = false;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;

  constructor(response: Response) {
    this.#reader = response.body!.getReader();
    this.#read();
  }

  get last(): Event | undefined {
    return this.events.at(-1);
  }

  get phases(): readonly string[] {
    const phases = this.events.map(({ status }) => status.phase);
    return phases.filter((phase, i) => phase !== phases[i - 1]);
  }

  async leave(): Promise<void> {
    await this.#reader.cancel();
  }

  async #read(): Promise<void> {
    const decoder = new TextDecoder();
    let text = "";
    for (let next = await this.#reader.read(); !next.done; next = await this.#reader.read()) {
      text += decoder.decode(next.value, { stream: true });
      const blocks = text.split("\n\n");
      text = blocks.pop() ?? "";
      for (const block of blocks) {
        const data = /^data: (.*)$/m.exec(block)?.[1];
        const name = /^event: (.*)$/m.exec(block)?.[1] ?? "message";
        if (data !== undefined) this.events.push({ name, status: JSON.parse(data) });
      }
    }
    this.ended = true;
  }
}

/** Starts a health server without a network. */
async function serve(fixture: Fixture, options: HealthOptions = {}) {
  let handler: RequestHandler = () => new Response();
  const closes: AbortSignal[] = [];
  const runtime = Object.assign(new FakeRuntime(), {
    serve: (fetch: RequestHandler) => {
      handler = fetch;
      const close = ({ signal }: { readonly signal: AbortSignal }) => {
        closes.push(signal);
        return closing;
      };
      return Promise.resolve({ hostname: "here", port: 1, close });
    },
  });
  let closing = Promise.resolve();
  const { clock, group, log } = fixture;
  const place = { port: 1, hostname: "here" };
  const stop = await serveHealth(await loadHono("it", runtime), group, runtime, place, {
    clock,
    log,
    ...options,
  });
  return {
    stop,
    closes,
    hang: () => void (closing = new Promise(() => {})),
    watch: async () => new EventClient(await handler(new Request("http://here/events"))),
  };
}

const never = new AbortController().signal;

describe("the events of a group", () => {
  it("/events sends the status immediately and every second, with one timer for all clients", async () => {
    const fixture = new Fixture();
    await fixture.start();
    const app = fixture.app();
    const { clock } = fixture;
    const { pending } = clock;
    const response = await app.request("/events");
    assertMatch(response.headers.get("content-type") ?? "", /^text\/event-stream/);
    assertEquals(response.headers.get("cache-control"), "no-store, no-transform");
    assertEquals(clock.pending, pending, "no client reads yet");
    const first = new EventClient(response);
    await clock.settle();
    assertEquals(first.events.length, 1);
    assertEquals([first.last?.name, first.last?.status.phase], ["message", "running"]);
    const others = await Promise.all(
      [1, 2, 3].map(async () => new EventClient(await app.request("/events"))),
    );
    await clock.advance(2_000);
    assertEquals([first, ...others].map(({ events }) => events.length), [3, 3, 3, 3]);
    assertEquals(clock.pending, pending + 1);
    for (const client of [first, ...others]) await client.leave();
    assertEquals(clock.pending, pending);
    await fixture.stop();
  });

  it("/events starts nothing for a HEAD request", async () => {
    const fixture = new Fixture();
    const response = await fixture.app().request("/events", { method: "HEAD" });
    assertEquals([response.status, await response.text()], [200, ""]);
    assertEquals(fixture.clock.pending, 0);
  });

  it("/events queries an engine once per second, also for many clients", async () => {
    const fixture = new Fixture();
    await fixture.start();
    let asked = 0;
    const counted = { name: "counted", approximateCount: () => Promise.resolve(++asked) };
    const app = fixture.app({ mailboxes: [counted] });
    const clients = await Promise.all(
      Array.from({ length: 20 }, async () => new EventClient(await app.request("/events"))),
    );
    await fixture.clock.advance(5_500);
    assert(asked <= 6, `asked ${asked} times in 5 s`);
    for (const client of clients) await client.leave();
    await fixture.stop();
  });

  it("/events sends every phase of a stop immediately, and ends when the server stops", async () => {
    const fixture = new Fixture();
    await fixture.start();
    await fixture.mailbox.send("tea", { id: "tea" });
    const { stop, watch } = await serve(fixture);
    const client = await watch();
    await fixture.clock.advance(500);
    assertEquals(client.events.length, 1);
    const stopping = fixture.group.shutdown({ timeoutMs: 10_000 });
    await fixture.clock.settle();
    assertEquals(client.phases, ["running", "unready"], "without waiting for the next second");
    assertEquals(client.last?.status.stop?.remainingMs, 10_000);
    await fixture.clock.advance(8_500);
    assertEquals(client.phases, ["running", "unready", "draining", "cancelling"]);
    assertEquals(client.last?.status.loops[0]?.work[0]?.id, "tea");
    assert(!client.ended);
    await stop({ signal: never });
    await fixture.clock.settle();
    assertEquals([client.last?.name, client.last?.status.phase], ["end", "stopped"]);
    assertEquals(client.last?.status.phases.slice(-2), ["cancelling", "stopped"]);
    assert(client.ended);
    fixture.work.resolve();
    await fixture.clock.until(stopping);
    assertEquals(fixture.clock.pending, 0);
  });

  it("the health server closes the connection of a client that does not read after 1 s", async () => {
    const fixture = new Fixture();
    const { stop, watch, closes, hang } = await serve(fixture);
    await watch();
    hang();
    stop({ signal: never }).catch(() => {});
    await fixture.clock.advance(999);
    assertEquals(closes[0]?.aborted, false);
    await fixture.clock.advance(1);
    assertEquals(closes[0]?.aborted, true);
    assertEquals(fixture.clock.pending, 0);
  });

  it("/events of a mounted app ends when a stop begins, because its server may wait for the streams", async () => {
    const fixture = new Fixture();
    await fixture.start();
    await fixture.mailbox.send("tea");
    const app = fixture.app();
    const client = new EventClient(await app.request("/events"));
    await fixture.clock.advance(10);
    const stopping = fixture.group.shutdown();
    await fixture.clock.settle();
    assertEquals([client.ended, client.last?.status.phase], [true, "unready"]);
    const again = new EventClient(await app.request("/events"));
    await fixture.clock.settle();
    assertEquals([again.ended, again.events.length, again.last?.name], [true, 1, "message"]);
    fixture.work.resolve();
    await fixture.clock.until(stopping);
    const late = new EventClient(await app.request("/events"));
    await fixture.clock.settle();
    assertEquals([late.ended, late.last?.name, late.last?.status.phase], [true, "end", "stopped"]);
    assertEquals(fixture.clock.pending, 0);
  });

  it("an event is below 100 kB with 1,000 loops and 50 replicas: failing ones first, then the oldest work", async () => {
    const base: Status = await (await new Fixture().app().request("/status")).json();
    const loops = Array.from({ length: 1_000 }, (_, i): LoopStatus => ({
      name: `loop-${i}`,
      state: i === 998 ? "failed" : "running",
      ready: i !== 999,
      inFlight: i % 2 === 0 ? 20 : 0,
      oldestMs: i % 2 === 0 ? i : 0,
      restarts: 0,
      work: Array.from({ length: i % 2 === 0 ? 20 : 0 }, (_, n) => ({ id: `m${n}`, ageMs: i })),
      messages: Array.from({ length: i % 2 === 0 ? 10 : 0 }, (_, n) => ({
        ...{ id: `m${n}`, attempt: 1, runningMs: i, finishedSteps: 10 },
        steps: Array.from({ length: 10 }, (_, step) => `the step with number ${step}`),
      })),
    }));
    const mailboxes = Array.from({ length: 1_000 }, (_, i) => ({
      name: `mailbox-${i}`,
      reachable: i !== 7,
      messages: i,
    }));
    const agents = Array.from({ length: 1_000 }, (_, i) => ({
      agentId: `agent-${i}`,
      status: i === 500 ? "stale" : "running",
    }));
    const replicas = Array.from({ length: 50 }, (_, i) => ({
      ...{ url: `http://10.0.0.${i}:8080/`, reachable: true, process: base.process! },
      ...{ phase: base.phase, ready: true, live: true, paused: false, totals: base.totals },
    }));
    const event = excerpt({ ...base, loops, mailboxes, agents, replicas });
    const names = event.loops.map(({ name }) => name);
    assertEquals(names.length, 100);
    assertEquals(names.slice(-2), ["loop-998", "loop-999"], "failing");
    assertEquals([names[0], names.includes("loop-801")], ["loop-802", false], "old work first");
    assertEquals(event.loops.map(({ work }) => work.length).slice(0, 2), [4, 4]);
    assertEquals(event.loops.map(({ messages }) => messages?.length).slice(0, 2), [1, 1]);
    assert(event.mailboxes.some(({ name }) => name === "mailbox-7"));
    assert(event.agents?.some(({ agentId }) => agentId === "agent-500"));
    assertEquals(event.leftOut, { loops: 900, mailboxes: 950, agents: 900 });
    const weight = JSON.stringify(event).length;
    assert(weight < 100_000, `an event weighs ${weight} bytes`);
  });

  it("/events accepts 100 clients and answers 503 to the next one", async () => {
    const fixture = new Fixture();
    const app = fixture.app();
    const clients = await Promise.all(
      Array.from({ length: 100 }, async () => new EventClient(await app.request("/events"))),
    );
    assertEquals((await app.request("/events")).status, 503);
    for (const client of clients) await client.leave();
    const next = await app.request("/events");
    assertEquals(next.status, 200);
    await next.body?.cancel();
  });

  it("/events skips events for a slow client", async () => {
    const fixture = new Fixture();
    await fixture.start();
    const response = await fixture.app().request("/events");
    const reader = response.body!.getReader();
    await reader.read();
    await fixture.clock.advance(60_000);
    let unread = 0;
    (async () => {
      while (!(await reader.read()).done) unread++;
    })();
    await fixture.clock.settle();
    assert(unread < 12, `${unread} events were kept`);
    await reader.cancel();
    await fixture.stop();
  });
});
