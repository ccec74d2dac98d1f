import { describe, it } from "node:test";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { excerpt } from "../../src/health/_excerpt.ts";
import type { HealthOptions, LoopStatus, Status } from "../../src/health/mod.ts";
import { HealthServer, loadHono } from "../../src/health/health_server.ts";
import type { RequestHandler } from "../../src/runtime.ts";
import { FakeRuntime } from "../../src/testing/mod.ts";
import { Clinic } from "./_clinic.ts";

interface Event {
  readonly name: string;
  readonly status: Status;
}

/** Reads a stream of events as far as it has come. */
class Watcher {
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

/** A health server whose requests are made here, without a network. */
async function serve(clinic: Clinic, options: HealthOptions = {}) {
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
  const { clock, group, log } = clinic;
  const place = { port: 1, hostname: "here" };
  const server = new HealthServer(await loadHono("it", runtime), group, runtime, place, {
    clock,
    log,
    ...options,
  });
  await server.start();
  return {
    server,
    closes,
    hang: () => void (closing = new Promise(() => {})),
    watch: async () => new Watcher(await handler(new Request("http://here/events"))),
  };
}

const never = new AbortController().signal;

describe("the events of a group", () => {
  it("come at once and every second, by one ticker for all that ends with the last watcher", async () => {
    const clinic = new Clinic();
    await clinic.start();
    const app = clinic.app();
    const { clock } = clinic;
    const { pending } = clock;
    const response = await app.request("/events");
    assertMatch(response.headers.get("content-type") ?? "", /^text\/event-stream/);
    assertEquals(response.headers.get("cache-control"), "no-store, no-transform");
    assertEquals(clock.pending, pending, "nobody reads yet");
    const first = new Watcher(response);
    await clock.settle();
    assertEquals(first.events.length, 1);
    assertEquals([first.last?.name, first.last?.status.phase], ["message", "running"]);
    const others = await Promise.all(
      [1, 2, 3].map(async () => new Watcher(await app.request("/events"))),
    );
    await clock.advance(2_000);
    assertEquals([first, ...others].map(({ events }) => events.length), [3, 3, 3, 3]);
    assertEquals(clock.pending, pending + 1);
    for (const watcher of [first, ...others]) await watcher.leave();
    assertEquals(clock.pending, pending);
    await clinic.stop();
  });

  it("cost nothing where only their headers are asked for", async () => {
    const clinic = new Clinic();
    const response = await clinic.app().request("/events", { method: "HEAD" });
    assertEquals([response.status, await response.text()], [200, ""]);
    assertEquals(clinic.clock.pending, 0);
  });

  it("ask an engine no more often for many watchers than for one", async () => {
    const clinic = new Clinic();
    await clinic.start();
    let asked = 0;
    const counted = { name: "counted", approximateCount: () => Promise.resolve(++asked) };
    const app = clinic.app({ mailboxes: [counted] });
    const watchers = await Promise.all(
      Array.from({ length: 20 }, async () => new Watcher(await app.request("/events"))),
    );
    await clinic.clock.advance(5_500);
    assert(asked <= 6, `asked ${asked} times in 5 s`);
    for (const watcher of watchers) await watcher.leave();
    await clinic.stop();
  });

  it("tell every phase of a stop as it begins, and end with the server", async () => {
    const clinic = new Clinic();
    await clinic.start();
    await clinic.mailbox.send("tea", { id: "tea" });
    const { server, watch } = await serve(clinic);
    const watcher = await watch();
    await clinic.clock.advance(500);
    assertEquals(watcher.events.length, 1);
    const stopping = clinic.group.shutdown({ timeoutMs: 10_000 });
    await clinic.clock.settle();
    assertEquals(watcher.phases, ["running", "unready"], "without waiting for the next second");
    assertEquals(watcher.last?.status.stop?.remainingMs, 10_000);
    await clinic.clock.advance(8_500);
    assertEquals(watcher.phases, ["running", "unready", "draining", "cancelling"]);
    assertEquals(watcher.last?.status.loops[0]?.work[0]?.id, "tea");
    assert(!watcher.ended);
    await server.stop({ signal: never });
    await clinic.clock.settle();
    assertEquals([watcher.last?.name, watcher.last?.status.phase], ["end", "stopped"]);
    assertEquals(watcher.last?.status.phases.slice(-2), ["cancelling", "stopped"]);
    assert(watcher.ended);
    clinic.work.resolve();
    await clinic.clock.until(stopping);
    assertEquals(clinic.clock.pending, 0);
  });

  it("of a client that does not read are cut off after a second, within the time of the stop", async () => {
    const clinic = new Clinic();
    const { server, watch, closes, hang } = await serve(clinic);
    await watch();
    hang();
    server.stop({ signal: never }).catch(() => {});
    await clinic.clock.advance(999);
    assertEquals(closes[0]?.aborted, false);
    await clinic.clock.advance(1);
    assertEquals(closes[0]?.aborted, true);
    assertEquals(clinic.clock.pending, 0);
  });

  it("of a mounted app end when a stop begins, since the server under it may wait for them", async () => {
    const clinic = new Clinic();
    await clinic.start();
    await clinic.mailbox.send("tea");
    const app = clinic.app();
    const watcher = new Watcher(await app.request("/events"));
    await clinic.clock.advance(10);
    const stopping = clinic.group.shutdown();
    await clinic.clock.settle();
    assertEquals([watcher.ended, watcher.last?.status.phase], [true, "unready"]);
    const again = new Watcher(await app.request("/events"));
    await clinic.clock.settle();
    assertEquals([again.ended, again.events.length, again.last?.name], [true, 1, "message"]);
    clinic.work.resolve();
    await clinic.clock.until(stopping);
    const late = new Watcher(await app.request("/events"));
    await clinic.clock.settle();
    assertEquals([late.ended, late.last?.name, late.last?.status.phase], [true, "end", "stopped"]);
    assertEquals(clinic.clock.pending, 0);
  });

  it("stay small with 1,000 loops: those in trouble, then the oldest work, and how many more", async () => {
    const base: Status = await (await new Clinic().app().request("/status")).json();
    const loops = Array.from({ length: 1_000 }, (_, i): LoopStatus => ({
      name: `loop-${i}`,
      state: i === 998 ? "failed" : "running",
      ready: i !== 999,
      inFlight: i % 2 === 0 ? 20 : 0,
      oldestMs: i % 2 === 0 ? i : 0,
      restarts: 0,
      work: Array.from({ length: i % 2 === 0 ? 20 : 0 }, (_, n) => ({ id: `m${n}`, ageMs: i })),
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
    const event = excerpt({ ...base, loops, mailboxes, agents });
    const names = event.loops.map(({ name }) => name);
    assertEquals(names.length, 100);
    assertEquals(names.slice(-2), ["loop-998", "loop-999"], "in trouble");
    assertEquals([names[0], names.includes("loop-801")], ["loop-802", false], "old work first");
    assertEquals(event.loops.map(({ work }) => work.length).slice(0, 2), [4, 4]);
    assert(event.mailboxes.some(({ name }) => name === "mailbox-7"));
    assert(event.agents?.some(({ agentId }) => agentId === "agent-500"));
    assertEquals(event.leftOut, { loops: 900, mailboxes: 950, agents: 900 });
    const weight = JSON.stringify(event).length;
    assert(weight < 100_000, `an event weighs ${weight} bytes`);
  });

  it("are told to a hundred, and to the next that there are too many", async () => {
    const clinic = new Clinic();
    const app = clinic.app();
    const watchers = await Promise.all(
      Array.from({ length: 100 }, async () => new Watcher(await app.request("/events"))),
    );
    assertEquals((await app.request("/events")).status, 503);
    for (const watcher of watchers) await watcher.leave();
    const next = await app.request("/events");
    assertEquals(next.status, 200);
    await next.body?.cancel();
  });

  it("are skipped by who reads too slowly, and are current again for the next read", async () => {
    const clinic = new Clinic();
    await clinic.start();
    const response = await clinic.app().request("/events");
    const reader = response.body!.getReader();
    await reader.read();
    await clinic.clock.advance(60_000);
    let unread = 0;
    (async () => {
      while (!(await reader.read()).done) unread++;
    })();
    await clinic.clock.settle();
    assert(unread < 12, `${unread} events were kept`);
    await reader.cancel();
    await clinic.stop();
  });
});
