import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import { describe, it } from "node:test";
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { LoopGroup, silentLog, StepLoop } from "../../mod.ts";
import { Board } from "../../src/coordination/mod.ts";
import type { HealthOptions, ReplicaStatus, Status } from "../../src/health/mod.ts";
import { deferred } from "../../src/_promises.ts";
import { freePort } from "../engines/_servers.ts";
import { Fixture } from "./_fixture.ts";

/** A group with a health port. */
class Replica implements AsyncDisposable {
  readonly url: string;
  readonly group: LoopGroup;
  readonly #run: Promise<unknown>;

  static async start(
    options: HealthOptions & { readonly port?: number },
  ): Promise<Replica> {
    const { port = await freePort(), ...health } = options;
    const replica = new Replica(port, health);
    const running = deferred();
    replica.group.on("phase", ({ phase }) => phase === "running" && running.resolve());
    await running.promise;
    return replica;
  }

  private constructor(port: number, health: HealthOptions) {
    this.url = `http://127.0.0.1:${port}/`;
    const idle = new StepLoop("idle", ({ sleep }) => sleep(60_000));
    const host = { healthPort: port, healthHost: "127.0.0.1", log: silentLog };
    this.group = new LoopGroup([idle], { ...host, watchdogThresholdMs: false, health });
    this.#run = this.group.run({ installSignals: false });
  }

  async status(): Promise<Status> {
    return await (await fetch(`${this.url}status`)).json();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.group.shutdown();
    await this.#run;
  }
}

/** A server that is no health app. */
class OtherServer implements AsyncDisposable {
  readonly #server: Server;

  static async start(listener: RequestListener): Promise<OtherServer> {
    const server = createServer(listener).listen(0, "127.0.0.1");
    await once(server, "listening");
    return new OtherServer(server);
  }

  private constructor(server: Server) {
    this.#server = server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as { readonly port: number }).port}/`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }
}

/** Asks a health app, on a virtual clock, for its replicas. */
async function replicasOf(
  options: HealthOptions,
  fixture: Fixture = new Fixture(),
): Promise<readonly ReplicaStatus[]> {
  const { replicas }: Status = await (await fixture.app(options).request("/status")).json();
  return replicas ?? [];
}

const COUNTS = { acknowledged: 0, nacked: 0, deadLettered: 0 };
const TOTALS = { loops: 1, ready: 1, inFlight: 0, oldestMs: 0, counts: COUNTS };
const SUMMARY = JSON.stringify({ phase: "running", totals: TOTALS });

describe("the replicas in the status", () => {
  it("each process shows the others, and not itself", async () => {
    const ports = [await freePort(), await freePort(), await freePort()];
    const replicas = ports.map((port) => `http://127.0.0.1:${port}`);
    await using a = await Replica.start({ port: ports[0]!, name: "a", version: "1.0", replicas });
    await using b = await Replica.start({ port: ports[1]!, name: "b", replicas: () => replicas });
    await using c = await Replica.start({ port: ports[2]!, name: "c", replicas });
    const names = async (replica: Replica) => {
      return (await replica.status()).replicas?.map((it) => [it.process?.name, it.reachable]);
    };
    assertEquals(await names(a), [["b", true], ["c", true]]);
    assertEquals(await names(b), [["a", true], ["c", true]]);
    const [first] = (await c.status()).replicas ?? [];
    assertEquals([first?.url, first?.process?.version, first?.phase], [a.url, "1.0", "running"]);
    assertEquals([first?.ready, first?.paused, first?.totals?.loops], [true, false, 1]);
    assertEquals(first && "replicas" in first, false, "an answer has no replicas of its own");
  });

  it("a replica that stopped keeps its process and tells why it does not answer", async () => {
    const fixture = new Fixture();
    const gone = await Replica.start({ name: "gone" });
    const app = fixture.app({ replicas: [gone.url] });
    const ask = async () => (await (await app.request("/status")).json() as Status).replicas?.[0];
    assertEquals([(await ask())?.reachable, (await ask())?.phase], [true, "running"]);
    await gone[Symbol.asyncDispose]();
    await fixture.clock.advance(2_000);
    const after = await ask();
    assertEquals([after?.reachable, after?.process?.name], [false, "gone"]);
    assertEquals([typeof after?.error, after && "phase" in after], ["string", false]);
    assert(after!.error!.length > 0);
  });

  it("answers that are no status are errors, and redirects are not followed", async () => {
    await using good = await OtherServer.start((_, response) => response.end(SUMMARY));
    const cases: readonly [RequestListener, RegExp][] = [
      [(_, response) => response.writeHead(302, { location: good.url }).end(), /^answered /],
      [(_, response) => response.writeHead(500).end("broken"), /^answered 500$/],
      [(_, response) => response.end("<html>"), /^is not a health app of lastcall$/],
      [(_, response) => response.end("{}"), /^is not a health app of lastcall$/],
      [(_, response) => response.end(" ".repeat(1_100_000) + SUMMARY), /^the answer is too long$/],
    ];
    assertEquals((await replicasOf({ replicas: [good.url] }))[0]?.phase, "running");
    for (const [listener, expected] of cases) {
      await using server = await OtherServer.start(listener);
      const [replica] = await replicasOf({ replicas: [server.url] });
      assertEquals([replica?.reachable, replica?.url], [false, server.url]);
      assertMatch(replica?.error ?? "", expected);
    }
  });

  it("a replica that does not answer is given up after checkTimeoutMs", async () => {
    const fixture = new Fixture();
    const [arrived, left] = [deferred(), deferred()];
    await using silent = await OtherServer.start((_, response) => {
      response.once("close", () => left.resolve());
      arrived.resolve();
    });
    const found = replicasOf({ replicas: [silent.url] }, fixture);
    await arrived.promise;
    await fixture.clock.advance(1_000);
    const [{ reachable, error } = {}] = await found;
    assertEquals([reachable, error], [false, "no answer within 1000 ms"]);
    await left.promise; // the request is cancelled
  });

  it("a replica is asked for a summary, at most every 2 s, and only while clients ask", async () => {
    const fixture = new Fixture();
    const asked: (string | undefined)[] = [];
    await using server = await OtherServer.start(({ url }, response) => {
      asked.push(url);
      response.end(SUMMARY);
    });
    const app = fixture.app({ replicas: [`${server.url}base?x=1#y`] });
    await fixture.clock.advance(60_000);
    assertEquals(asked, []);
    for (let i = 0; i < 5; i++) await app.request("/status");
    assertEquals(asked, ["/base/status?summary=true"]);
    await fixture.clock.advance(2_000);
    await app.request("/status?summary=true");
    await app.request("/metrics");
    assertEquals(asked.length, 1);
    await app.request("/status");
    assertEquals(asked.length, 2);
  });

  it("credentials of a URL are sent and not shown", async () => {
    let sent: string | undefined;
    await using server = await OtherServer.start(({ headers }, response) => {
      sent = headers.authorization;
      response.writeHead(401).end();
    });
    const url = server.url.replace("//", "//ada:s%C3%A9cret@");
    const fixture = new Fixture();
    const log = { ...fixture.log, warn: (...entry: unknown[]) => logged.push(entry) };
    const logged: unknown[] = [];
    const found = await replicasOf({ replicas: [url], log }, fixture);
    assertEquals(sent, `Basic ${btoa("ada:s\xc3\xa9cret")}`);
    assertEquals(found, [{ url: server.url, reachable: false, error: "answered 401" }]);
    assertEquals([logged.length, /cret/.test(JSON.stringify(logged))], [1, false]);
  });

  it("a function may return other addresses at any time, and its failure keeps the last ones", async () => {
    await using one = await Replica.start({ name: "one" });
    await using two = await Replica.start({ name: "two" });
    const fixture = new Fixture();
    let list = () => Promise.resolve([one.url]);
    const app = fixture.app({ replicas: () => list() });
    const names = async () => {
      await fixture.clock.advance(2_000);
      const { replicas }: Status = await (await app.request("/status")).json();
      return replicas?.map(({ process }) => process?.name);
    };
    assertEquals(await names(), ["one"]);
    list = () => Promise.resolve([two.url, one.url, two.url]);
    assertEquals(await names(), ["two", "one"]);
    list = () => Promise.reject(new Error("no DNS"));
    assertEquals(await names(), ["two", "one"]);
    list = () => Promise.resolve(["ftp://x"]);
    assertEquals(await names(), ["two", "one"]);
    list = () => Promise.resolve([]);
    assertEquals(await names(), []);
  });

  it("members of the board that publish their healthUrl are replicas", async () => {
    await using worker = await Replica.start({ name: "worker" });
    await using board = new Board();
    const fixture = new Fixture();
    const { length } = fixture.logged;
    await board.setState("a", "running", { healthUrl: worker.url });
    await board.setState("b", "running", { healthUrl: worker.url });
    await board.setState("c", "running", { healthUrl: "localhost:8080" });
    await board.setState("d", "running");
    await board.setState("e", "running", { healthUrl: "http://127.0.0.1:1/" });
    await board.setState("e", "shutting_down", { healthUrl: "http://127.0.0.1:1/" });
    await board.setState("e", "shutdown_complete", { healthUrl: "http://127.0.0.1:1/" });
    const found = await replicasOf({ board }, fixture);
    assertEquals(found.map((it) => [it.url, it.process?.name]), [[worker.url, "worker"]]);
    const [warning, ...others] = fixture.logged.slice(length);
    assertMatch(warning ?? "", /^health address ignored/);
    assertEquals(others, []);
  });

  it("at most 50 replicas are asked", async () => {
    let asked = 0;
    await using server = await OtherServer.start((_, response) => {
      asked++;
      response.end(SUMMARY);
    });
    const replicas = Array.from({ length: 60 }, (_, i) => `${server.url}${i}`);
    const found = await replicasOf({ replicas });
    assertEquals([found.length, asked, found.at(-1)?.url], [50, 50, `${server.url}49/`]);
  });

  it("healthApp refuses addresses without http, and does not repeat their password", () => {
    for (const url of ["ftp://ada:secret@host", "localhost:8080", "", 5 as never]) {
      const error = assertThrows(
        () => new Fixture().app({ replicas: [url] }),
        TypeError,
        "Invalid replicas: expected URLs of health apps",
      );
      assert(!error.message.includes("secret"));
    }
  });
});
