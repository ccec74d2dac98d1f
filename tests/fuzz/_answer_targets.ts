// What other processes answer to the health app and to `lastcall top`.

import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { frame, plainLines, sorted, SORTS } from "../../cli/top/frame.ts";
import { Looker, type Source, sourceOf } from "../../cli/top/sources.ts";
import { systemClock } from "../../src/clock.ts";
import { Replicas } from "../../src/health/_replicas.ts";
import type { ReplicaStatus } from "../../src/health/status.ts";
import { silentLog } from "../../src/log.ts";
import { painter } from "../../src/terminal/text.ts";
import { refusal } from "./_decoding.ts";
import type { Target } from "./_fuzz.ts";
import { json, mutated, sometimesLong, swapped, text } from "./_inputs.ts";

const ms = fc.nat({ max: 100_000 });
const some = <T>(it: fc.Arbitrary<T>) => fc.option(it, { nil: undefined });
const counts = fc.record({ acknowledged: ms, nacked: ms, deadLettered: ms });
const process = fc.record({
  ...{ id: text, name: text, startedAt: ms, lastcall: text, pid: some(ms), version: some(text) },
});
const state = {
  ...{ phase: fc.constantFrom("running", "draining"), ready: fc.boolean(), live: fc.boolean() },
  ...{ paused: fc.boolean(), process },
  totals: fc.record({ loops: ms, ready: ms, inFlight: ms, oldestMs: ms, counts, perSecond: ms }),
  stop: some(fc.record({ reason: text, remainingMs: ms, timeoutMs: ms })),
};
const loop = fc.record({
  ...{ name: text, state: fc.constant("running"), ready: fc.boolean(), inFlight: ms },
  ...{ oldestMs: ms, restarts: ms, counts: some(counts), perSecond: some(ms) },
});
const mailbox = fc.record({
  ...{ name: text, reachable: fc.boolean(), engine: text, waiting: ms, delayed: some(ms) },
  ...{ dead: some(ms), oldestWaitingMs: some(ms), paused: some(fc.boolean()) },
  rateLimit: some(fc.record({ max: ms, perMs: ms })),
});
const replica = fc.record({ url: text, reachable: fc.boolean(), ...state }, {
  requiredKeys: ["url", "reachable"],
});
const status = fc.record({
  ...state,
  loops: fc.array(loop, { maxLength: 2 }),
  mailboxes: fc.array(mailbox, { maxLength: 2 }),
  replicas: fc.array(replica, { maxLength: 2 }),
});

/** An answer over HTTP. */
export interface HttpAnswer {
  readonly code: number;
  readonly body: string;
}

const answer: fc.Arbitrary<HttpAnswer> = fc.record({
  code: fc.constantFrom(200, 200, 200, 200, 200, 204, 302, 404, 500),
  body: sometimesLong(
    fc.oneof(
      { weight: 4, arbitrary: swapped(status).map((it) => JSON.stringify(it)) },
      { weight: 2, arbitrary: mutated(status.map((it) => JSON.stringify(it))) },
      { weight: 1, arbitrary: json.map((it) => JSON.stringify(it)) },
    ),
    '{"phase":',
  ),
});

/** A server that gives one answer to every request. */
class Answering implements AsyncDisposable {
  readonly #server: Server;

  static async start({ code, body }: HttpAnswer): Promise<Answering> {
    const server = createServer((_, response) => {
      response.writeHead(code, { connection: "close", location: "http://127.0.0.1:1/" });
      response.end(body);
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new Answering(server);
  }

  private constructor(server: Server) {
    this.#server = server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }
}

/** Asks one replica, and returns what the status shows of it. */
async function askReplica(url: string): Promise<readonly ReplicaStatus[]> {
  const own = { id: "own", name: "own", startedAt: 0, lastcall: "1" };
  const options = { timeoutMs: 10_000, clock: systemClock, log: silentLog };
  const replicas = new Replicas(own, [url], options);
  await replicas.refresh([]);
  return replicas.known();
}

/** The status shows what a replica says in the documented form, or why it does not. */
export const replicaAnswers = (ask: typeof askReplica = askReplica): Target<HttpAnswer> => ({
  name: "replica_answer",
  inputs: answer,
  cost: 2,
  holds: async (given) => {
    await using server = await Answering.start(given);
    for (const { url, reachable, error, ...shown } of await ask(server.url)) {
      assertEquals(url, `${server.url}/`);
      if (!reachable) {
        refusal(new Error(error), { names: ["Error"], text: /^(answered |is not |the answer )/ });
        assertEquals(shown, {});
        continue;
      }
      const { process, phase, ready, live, paused, totals, stop } = shown;
      assert(typeof phase === "string" && typeof totals === "object", `${phase} ${totals}`);
      for (const it of [ready, live, paused]) assert(["boolean", "undefined"].includes(typeof it));
      for (const it of [totals.loops, totals.inFlight, totals.counts.nacked]) {
        assert(Number.isFinite(it), `a count of ${it}`);
      }
      assert(stop === undefined || Number.isFinite(stop.remainingMs), `${stop?.remainingMs} ms`);
      assert(process === undefined || typeof process.name === "string", "a process has a name");
    }
  },
});

const sink = { interactive: false, columns: 80, write() {} };

/** The view shows what a worker says, on lines of its own, or why it is away. */
export const workerAnswers = (make: (url: string) => Source = sourceOf): Target<HttpAnswer> => ({
  name: "worker_answer",
  inputs: answer,
  cost: 2,
  holds: async (given) => {
    await using server = await Answering.start(given);
    const looker = new Looker([make(server.url)]);
    for (let looks = 0; looks < 2; looks++) {
      await looker.look(10_000, new AbortController().signal);
    }
    const view = looker.view();
    await looker.close();
    for (const { message, code } of view.away) {
      assertEquals(code, "failed", message);
      refusal(new Error(message), { names: ["Error"], text: /is not a health app of lastcall/ });
    }
    for (const { loops, inFlight, oldestMs, acknowledged, failed } of view.workers) {
      for (const it of [loops, inFlight, oldestMs, acknowledged, failed]) {
        assert(Number.isFinite(it), `a worker with ${it}`);
      }
    }
    const lines = Object.keys(SORTS).flatMap((sort) => {
      const queues = sorted(view.queues, sort);
      return frame({ ...view, queues }, Infinity, sink as never, painter(false));
    });
    for (const line of [...lines, ...plainLines(view)]) {
      // deno-lint-ignore no-control-regex -- a terminal must not get them
      assert(!/[\0-\x1f\x7f-\x9f]/.test(line), `a line ${JSON.stringify(line)}`);
      assert(!/NaN|undefined|\[object/.test(line), `a line ${line}`);
    }
  },
});
