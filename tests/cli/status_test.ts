import { once } from "node:events";
import { createServer } from "node:http";
import { describe, it } from "node:test";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { healthUrl } from "../../cli/_health.ts";
import { FakeRuntime } from "../../src/testing/mod.ts";
import { deferred } from "../../src/_promises.ts";
import { freePort } from "../engines/_servers.ts";
import { lastcall } from "./_io.ts";
import { startWorker } from "./_worker.ts";

/** Starts a server that answers `/status` with this body, or 404, and other paths with `others`. */
async function answering(
  status: unknown,
  others: number = 200,
): Promise<{ readonly url: string } & AsyncDisposable> {
  const server = createServer(({ url }, response) => {
    response.setHeader("connection", "close");
    const asked = url === "/status";
    response.statusCode = asked ? (status === undefined ? 404 : 200) : others;
    response.end(asked ? JSON.stringify(status ?? {}) : "");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { readonly port: number };
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.close();
      await once(server, "close");
    },
  };
}

describe("lastcall status", () => {
  it("lastcall status shows a ready group with its work in flight, and exits 0", async () => {
    await using worker = await startWorker(["tea", "soup"]);
    const { code, out, err } = await lastcall(["status", worker.url]);
    assertEquals({ code, err }, { code: 0, err: "" });
    assertMatch(
      out,
      new RegExp(`^${worker.url}  ready, running.*  \\S+ \\(pid \\d+, up \\d+.*\\)\n`),
    );
    assertMatch(out, /LOOP +STATE +READY +IN FLIGHT/);
    assertMatch(out, /orders +running +yes +2 /);
    assertEquals(out.includes("\x1b"), false);
  });

  it("lastcall status shows how far messages are, where they have finished steps or failed before", async () => {
    const loop = { state: "running", ready: true, inFlight: 3, oldestMs: 9_000, restarts: 0 };
    const shipped = { id: "m1", attempt: 2, runningMs: 9_000, finishedSteps: 3 };
    const status = {
      ...{ live: true, ready: true, phase: "running", paused: false },
      loops: [{
        ...loop,
        name: "orders",
        work: [{ id: "m1", ageMs: 9_000 }, { id: "m2", ageMs: 5_000 }],
        messages: [
          { ...shipped, steps: ["charge", "mail"] },
          { id: "m2", attempt: 1, runningMs: 5_000, finishedSteps: 0, steps: [] },
        ],
      }],
    };
    await using server = await answering(status);
    const { out } = await lastcall(["status", server.url]);
    assertMatch(out, /^IN FLIGHT +LOOP +AGE +ATTEMPT +FINISHED STEPS$/m);
    assertMatch(out, /^m1 +orders +9 s +2 +…, charge, mail$/m);
    assertMatch(out, /^m2 +orders +5 s +1$/m);
    assertMatch(out, /^… and 1 more$/m);
  });

  it("lastcall status writes the whole status in one line with --json", async () => {
    await using worker = await startWorker(["tea"]);
    const { code, json } = await lastcall(["status", `127.0.0.1:${worker.port}`, "--json"]);
    assertEquals(code, 0);
    const [{ ready, phase, failed, loops }] = json;
    assertEquals({ ready, phase, failed }, { ready: true, phase: "running", failed: [] });
    assertEquals([loops[0].name, loops[0].inFlight], ["orders", 1]);
  });

  it("lastcall status exits 1 when the group is paused", async () => {
    await using worker = await startWorker();
    await worker.group.pause();
    const { code, out, err } = await lastcall(["status", worker.url]);
    assertEquals(code, 1);
    assertStringIncludes(out, "not ready: paused");
    assertEquals(
      err,
      `error: ${worker.url} is not ready: paused until resumed\n`,
    );
  });

  it("lastcall status uses the ready field of /status when there is no readiness probe", async () => {
    const status = { live: true, ready: true, phase: "running", paused: false, loops: [] };
    await using server = await answering(status, 404);
    const { code, out } = await lastcall(["status", server.url]);
    assertEquals({ code, out }, { code: 0, out: `${server.url}  ready, running\n` });
  });

  it("lastcall status exits 1 when a readiness check fails, and names the check", async () => {
    await using worker = await startWorker([], { checks: { database: () => false } });
    const { code, err, json } = await lastcall(["status", worker.url, "--json"]);
    assertEquals(code, 1);
    assertEquals(json[0].failed, [{ name: "database", why: "failed" }]);
    assertEquals(JSON.parse(err).error.code, "failed");
  });

  it("lastcall status shows the time that is left of a shutdown", async () => {
    await using worker = await startWorker(["tea"]);
    const stopped = worker.group.shutdown();
    const { code, out } = await lastcall(["status", worker.url]);
    assertEquals(code, 1);
    assertMatch(
      out,
      /not ready: (unready|draining) \(shutdown\(\) was called\), 30 s of 30 s left/,
    );
    worker.finish();
    await stopped;
  });

  it("lastcall status shows rates, mailboxes, work and agents where /status has them", async () => {
    const loop = { name: "a", state: "running", ready: true, inFlight: 30, oldestMs: 65_000 };
    await using server = await answering({
      ...{ live: true, ready: true, phase: "running", paused: false, at: 10_000, runtime: "bun" },
      loops: [{
        ...loop,
        restarts: 1,
        perSecond: 4.25,
        mailbox: "jobs",
        work: [{ id: "order-7", ageMs: 65_000 }],
        counts: { received: 9, acknowledged: 5, nacked: 1, deadLettered: 2 },
        ahead: { most: 9, waiting: 7 },
      }],
      mailboxes: [
        {
          ...{ name: "jobs", reachable: true, messages: 12, waiting: 8, delayed: 1, inFlight: 3 },
          ...{ dead: 2, oldestWaitingMs: 90_000, paused: true },
        },
        { name: "mails", reachable: false },
        { name: "files", reachable: true, messages: 4, waiting: 4, error: "the disk is full" },
      ],
      agents: [{ agentId: "w-1", status: "stale", updatedAt: 7_000 }],
    });
    const { out } = await lastcall(["status", server.url]);
    assertMatch(out, /ready, running, on bun/);
    assertMatch(out, /a +running +yes +30 +1 min +7 +5 +3 +4\.[23] +1 +jobs/);
    assertMatch(out, /order-7 +a +1 min\n… and 29 more/);
    assertMatch(out, /MAILBOX +WAITING +DELAYED +IN FLIGHT +DEAD +OLDEST +PAUSED +PROBLEM\n/);
    assertMatch(out, /jobs +8 +1 +3 +2 +2 min +yes\nmails +unreachable: no answer\n/);
    assertMatch(out, /files +4 +the disk is full\n/);
    assertMatch(out, /w-1 +stale +3 s/);
  });

  it("lastcall status shows how long a mailbox is paused, and its limit", async () => {
    await using worker = await startWorker();
    await worker.mailbox.pause({ forMs: 86_400_000 });
    await worker.mailbox.rateLimit({ max: 100, perMs: 1_000 });
    const { out } = await lastcall(["status", worker.url]);
    assertMatch(out, /^MAILBOX +WAITING +.* PAUSED +LIMIT$/m);
    assertMatch(out, /^orders .* yes, (24 h|1 d) left +100\/s$/m);
    const [{ mailboxes: [mailbox] }] = (await lastcall(["status", worker.url, "--json"])).json;
    assertEquals(mailbox.rateLimit, { max: 100, perMs: 1_000 });
    assertEquals(mailbox.pausedForMs > 86_000_000, true);
  });

  it("lastcall status exits 1 when there is no answer, with the code unavailable", async () => {
    const port = await freePort();
    const { code, out, err } = await lastcall(["status", `:${port}`]);
    assertEquals({ code, out }, { code: 1, out: "" });
    assertEquals(
      err,
      `error: Cannot reach http://localhost:${port}: connection refused\n`,
    );
    const json = await lastcall(["status", `:${port}`, "--json"]);
    assertEquals(JSON.parse(json.err).error.code, "unavailable");
  });

  it("lastcall status exits 1 when the server is not a health app", async () => {
    await using other = await answering({ hello: "world" });
    const { code, err } = await lastcall(["status", other.url]);
    assertEquals(code, 1);
    assertStringIncludes(
      err,
      "is not a health app of lastcall: /status answered 200 with an unknown format",
    );
    await using none = await answering(undefined);
    assertStringIncludes((await lastcall(["status", none.url])).err, "/status answered 404");
  });

  it("lastcall status refuses an invalid address before it sends a request", async () => {
    for (const url of ["redis://localhost", "http://", "a b", "http://me:secret@host"]) {
      const { code, err } = await lastcall(["status", url]);
      assertEquals(code, 2, url);
      assertEquals(err.includes("secret"), false);
    }
    assertEquals((await lastcall(["status"])).code, 2);
    assertEquals((await lastcall(["status", ":8080", "--watch", "--every", "0s"])).code, 2);
  });

  it("lastcall status accepts the address in several forms", () => {
    const cases = [
      ["localhost:8080", "http://localhost:8080"],
      [":8080", "http://localhost:8080"],
      ["http://h:1/", "http://h:1"],
      ["https://h/base", "https://h/base"],
      ["https://h/base/status", "https://h/base"],
      ["h:1/health/ready", "http://h:1"],
      ["[::1]:8080", "http://[::1]:8080"],
    ] as const;
    for (const [given, base] of cases) assertEquals(healthUrl(given), base);
  });
});

describe("lastcall status --watch", () => {
  it("lastcall status --watch writes one line a change until Ctrl+C, and exits 0", async () => {
    const [looked, paused] = [deferred(), deferred()];
    let looks = 0;
    await using worker = await startWorker(["tea"], {
      checks: { looks: () => ++looks === 3 ? looked.resolve() : undefined },
    });
    const runtime = new FakeRuntime();
    const lines: string[] = [];
    const watching = lastcall(["status", worker.url, "--watch", "--every", "5ms"], {
      runtime,
      onOut: (text) => {
        lines.push(text.replace(/^\S+ /, ""));
        if (text.includes("paused")) paused.resolve();
      },
    });
    await looked.promise;
    void worker.group.pause();
    await paused.promise;
    runtime.send("SIGINT");
    assertEquals((await watching).code, 0);
    assertEquals(lines, [
      "ready, running, 1 loop, 1 in flight\n",
      "not ready: paused until resumed, 1 loop, 1 in flight\n",
    ]);
    assertEquals(runtime.listening, 0);
  });

  it("lastcall status --watch tells in a pipe that a mailbox is paused for all processes", async () => {
    await using worker = await startWorker();
    await worker.mailbox.pause();
    const runtime = new FakeRuntime();
    const { code, out } = await lastcall(["status", worker.url, "--watch", "--every", "5ms"], {
      runtime,
      onOut: () => runtime.send("SIGINT"),
    });
    assertEquals(code, 0);
    assertMatch(out, /^\S+ ready, running, 1 loop, 0 in flight, mailbox orders paused\n$/);
  });

  it("lastcall status --watch continues while there is no answer", async () => {
    const runtime = new FakeRuntime();
    const port = await freePort();
    const { code, json } = await lastcall(
      ["status", `:${port}`, "--watch", "--every", "5ms", "--json"],
      { runtime, onOut: () => runtime.send("SIGTERM") },
    );
    assertEquals(code, 0);
    assertEquals(json.map(({ error }) => error.code), ["unavailable"]);
  });

  it("lastcall status --watch redraws a terminal within its width and height", async () => {
    await using worker = await startWorker(["tea"]);
    const runtime = new FakeRuntime();
    let draws = 0;
    const { out } = await lastcall(["status", worker.url, "--watch", "--every", "5ms"], {
      runtime,
      interactive: true,
      rows: 4,
      columns: 30,
      onOut: () => ++draws === 2 && runtime.send("SIGINT"),
    });
    const [, second = ""] = out.split("\x1b[3A\r\x1b[J");
    // deno-lint-ignore no-control-regex -- matches colour codes
    const shown = second.replace(/\x1b\[\d+m/g, "").split("\n").slice(0, 3);
    assertMatch(shown[2] ?? "", /^… and \d more lines$/);
    assertEquals(shown.every((line) => line.length <= 30), true, second);
  });
});
