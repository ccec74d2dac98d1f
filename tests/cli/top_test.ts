import { once } from "node:events";
import { createServer } from "node:http";
import { describe, it } from "node:test";
import {
  assert,
  assertEquals,
  assertGreater,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { frame } from "../../cli/top/frame.ts";
import { Looker, type Source } from "../../cli/top/sources.ts";
import { openMailbox, silentLog } from "../../mod.ts";
import { FakeRuntime } from "../../src/testing/mod.ts";
import { deferred } from "../../src/_promises.ts";
import { freePort } from "../engines/_servers.ts";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { Child } from "../signals/_child.ts";
import { Screen, TerminalProcess, whyNoScreen } from "../terminal/_screen.ts";
import { lastcall } from "./_io.ts";
import { lacksLimits } from "./_limits.ts";
import { startWorker } from "./_worker.ts";

/** Sends messages to a queue. */
async function send(url: string, count: number): Promise<void> {
  await using mailbox = await openMailbox(url, { log: silentLog });
  await mailbox.sendMany(Array.from({ length: count }, (_, i) => i));
}

describe("lastcall top", () => {
  it("lastcall top --once shows all queues of a file, those with most messages first", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    await send(`${url}?queue=few`, 1);
    await send(`${url}?queue=many`, 3);
    const { code, out, err } = await lastcall(["top", url, "--once"]);
    assertEquals({ code, err }, { code: 0, err: "" });
    assertMatch(out, /^QUEUE +WAITING +DELAYED +IN FLIGHT +DEAD +OLDEST +PAUSED +CHANGE\/S\n/);
    assertMatch(out, /\nmany +3 +0 +0 +0 .* no\nfew +1 /);
    const byName = await lastcall(["top", url, "--once", "--sort", "name"]);
    assertMatch(byName.out, /\nfew .*\nmany /);
    const one = await lastcall(["top", `${url}?queue=few`, "--once", "--json"]);
    assertEquals(one.json[0].queues.map(({ name }: { name: string }) => name), ["few"]);
  });

  it("lastcall top shows pauses and limits", { skip: lacksLimits }, async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    await send(url, 1);
    assertEquals((await lastcall(["pause", url])).code, 0);
    assertEquals((await lastcall(["limit", url, "10/s"])).code, 0);
    const { out } = await lastcall(["top", url, "--once"]);
    assertMatch(out, /default +1 .* yes +10\/s/);
  });

  it("lastcall top --json writes a value a look, with the change per second", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}?queue=jobs`;
    await send(url, 1);
    const runtime = new FakeRuntime();
    let sent = false;
    const looked = await lastcall(["top", "--json", "--interval", "5ms"], {
      env: { LASTCALL_MAILBOX: url },
      runtime,
      onOut: (text) => {
        const [queue] = JSON.parse(text).queues;
        if (queue.waiting === 6) return runtime.send("SIGINT");
        if (!sent) void send(url, 5);
        sent = true;
      },
    });
    assertEquals(looked.code, 0);
    const queues = looked.json.map((it) => it.queues[0]);
    assertEquals([queues[0].waiting, "changePerSecond" in queues[0]], [1, false]);
    assertGreater(queues.at(-1).changePerSecond, 0);
    assertEquals(runtime.listening, 0);
  });

  it("lastcall top in a pipe writes a line for each queue, worker and error", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    await send(url, 2);
    await using worker = await startWorker(["tea"]);
    const away = `http://127.0.0.1:${await freePort()}`;
    const runtime = new FakeRuntime();
    const { out } = await lastcall(["top", url, worker.url, away], {
      runtime,
      onOut: (text) => text.includes(" error ") && runtime.send("SIGINT"),
    });
    const lines = out.trimEnd().split("\n").map((line) => line.replace(/^\S+Z /, ""));
    assertMatch(lines[0]!, new RegExp(`^worker ${worker.url}: running, 1 loop, 1 in flight`));
    assertMatch(
      lines[1]!,
      /^queue default at sqlite:.*: 2 waiting, 0 delayed, 0 in flight, 0 dead/,
    );
    assertMatch(lines[2]!, new RegExp(`^queue orders at ${worker.url}: 0 waiting`));
    assertEquals(lines[3], `error ${away}: Cannot reach ${away}: connection refused`);
    assertEquals(lines.length, 4);
  });

  it("lastcall top shows an engine that is away, and its queues when it is back", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file("later.db")}`;
    const runtime = new FakeRuntime();
    let created = false;
    const { json } = await lastcall(["top", url, "--json", "--interval", "5ms"], {
      runtime,
      onOut: (text) => {
        const { errors, queues } = JSON.parse(text);
        if (errors.length > 0 && !created) void send(url, 1);
        created = true;
        if (queues.length > 0) runtime.send("SIGINT");
      },
    });
    assertStringIncludes(json[0].errors[0].message, "No file");
    assertEquals([json.at(-1).errors, json.at(-1).queues[0].waiting], [[], 1]);
  });

  it("lastcall top --once exits 1 when a worker does not answer, and shows the others", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    await send(url, 2);
    const { code, out, err } = await lastcall(["top", url, `:${await freePort()}`, "--once"]);
    assertEquals(code, 1);
    assertMatch(out, /default +2 /);
    assertMatch(err, /^error: http:\/\/localhost:\d+: Cannot reach .*: connection refused\n$/);
  });

  it("lastcall top refuses wrong usage with exit code 2", async () => {
    for (
      const args of [
        [],
        ["memory:orders"],
        ["sqlite:./x.db?size=1"],
        ["ftp://host"],
        [":8080", "--interval", "0s"],
        [":8080", "--sort", "colour"],
      ]
    ) assertEquals((await lastcall(["top", ...args])).code, 2, args.join(" "));
  });

  it("lastcall top shows how far the stop of a worker is", async () => {
    await using worker = await startWorker(["tea"]);
    const stopped = worker.group.shutdown();
    const { out } = await lastcall(["top", worker.url, "--once"], { columns: 200 });
    assertMatch(out, /(unready|draining) ─{10} 30 s left +1 +1 /);
    worker.finish();
    await stopped;
  });

  it("lastcall top shows the replicas that a worker knows, and a queue of two workers once", async () => {
    const totals = {
      ...{ loops: 3, ready: 3, inFlight: 7, oldestMs: 4_000, perSecond: 2.5 },
      counts: { acknowledged: 40, nacked: 1, deadLettered: 2 },
    };
    const group = { live: true, ready: true, phase: "running", paused: false, totals };
    const mailboxes = [{ name: "orders", engine: "Redis", reachable: true, waiting: 3 }];
    const status = {
      ...group,
      ...{ loops: [], mailboxes, process: { name: "web-1", pid: 7, startedAt: 0, lastcall: "1" } },
      replicas: [
        { ...group, url: "http://web-2", reachable: true, paused: true },
        { url: "http://web-3", reachable: false },
      ],
    };
    const server = createServer((_, response) => {
      response.setHeader("connection", "close");
      response.end(JSON.stringify(status));
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { readonly port: number };
    const urls = [`127.0.0.1:${port}`, `localhost:${port}/status`];
    const { out } = await lastcall(["top", ...urls, "--once"]);
    server.close();
    assertMatch(out, /web-1 http:\/\/127.0.0.1:\d+ +running +3 +7 +4 s +2.5 +40 +3\n/);
    assertMatch(out, /http:\/\/web-2 +paused +3 /);
    assertEquals([out.includes("web-3"), out.match(/^orders /gm)?.length], [false, 1]);
  });
});

describe("lastcall top on a terminal", () => {
  it("lastcall top fits the terminal, takes keys, and restores the screen", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    for (let i = 0; i < 30; i++) await send(`${url}?queue=queue-${10 + i}`, i + 1);
    const screen = new Screen(); // 80 × 16
    const seen: string[] = [];
    let press = (_key: string) => {};
    let released = false;
    const steps = [
      () => press("s"), // oldest
      () => press("s"), // dead
      () => press("s"), // name
      () => press("p"),
      () => press("x"),
      () => press("q"),
    ];
    let written = Promise.resolve();
    const { code, out } = await lastcall(["top", url, "--interval", "10ms"], {
      interactive: true,
      rows: 16,
      env: { NO_COLOR: "1" },
      keys: (listener) => {
        press = listener;
        return () => released = true;
      },
      onOut: (text) => {
        written = written.then(() => screen.write(text)).then(() => {
          if (!text.includes("QUEUE")) return;
          const picture = screen.lines.join("\n");
          assert(screen.isTaken && screen.history.length === 16, picture);
          if (seen.at(-1) === firstRows(picture)) return;
          seen.push(firstRows(picture));
          queueMicrotask(() => steps.shift()?.());
          if (seen.length === 5) queueMicrotask(() => steps.splice(0).forEach((step) => step()));
        });
      },
    });
    await written;
    assertEquals([code, released, screen.isTaken], [0, true, false]);
    assert(out.endsWith("\x1b[?25h\x1b[?1049l"), "the cursor is visible");
    assertEquals(seen, [
      "sort: backlog queue-39 … and 18 more",
      "sort: oldest queue-10 … and 18 more",
      "sort: dead queue-10 … and 18 more",
      "sort: name queue-10 … and 18 more",
      "held sort: name queue-10 … and 18 more",
    ]);
  });

  it("a real terminal: q ends lastcall top, and the terminal reads lines again", {
    skip: whyNoScreen(),
  }, async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    await send(url, 2);
    for (const key of ["q", "\x03"]) {
      await using top = TerminalProcess.start("top", { TOP_URL: url });
      await top.shows(/^default +2 /m);
      assertEquals(top.screen.isTaken, true);
      top.press("s");
      await top.shows(/sort: oldest/);
      top.press(key);
      assertEquals(await top.exit(), 0);
      assertEquals(top.screen.isTaken, false);
      assertStringIncludes(top.screen.lines.join("\n"), "exit code 0, raw false");
    }
  });
});

/** Returns the order, the first queue and the last line of a picture. */
function firstRows(picture: string): string {
  const [, held = ""] = /(held) /.exec(picture) ?? [];
  const [order] = /sort: \w+/.exec(picture) ?? [];
  const [, first] = /QUEUE.*\n(\S+)/.exec(picture) ?? [];
  return `${held} ${order} ${first} ${/… and \d+ more$/m.exec(picture)?.[0]}`.trim();
}

it("a frame shows a part of each table when both are longer than the terminal", () => {
  const sink = { write() {}, interactive: false, columns: 200 };
  const worker = {
    ...{ phase: "running", ready: true, paused: false, loops: 1, inFlight: 0, oldestMs: 0 },
    ...{ acknowledged: 0, failed: 0 },
  };
  const rows = <T>(of: (i: number) => T) => Array.from({ length: 50 }, (_, i) => of(i));
  const view = {
    workers: rows((i) => ({ ...worker, at: `http://web-${i}` })),
    queues: rows((i) => ({ name: `q${i}`, at: "x", waiting: i })),
    away: [{ at: "redis://r", message: "refused", code: "unavailable" }],
  };
  const lines = frame(view, 21, sink, (_, text) => text);
  assertEquals(lines.length, 21);
  assertEquals(lines[0], "redis://r  refused");
  const cut = lines.flatMap((line) => /^… and (\d+) more$/.exec(line)?.[1] ?? []);
  assertEquals(cut, ["43", "43"]);
  assertEquals(frame({ ...view, queues: [] }, Infinity, sink, (_, text) => text).length, 53);
});

it("a source that hangs keeps its last answer and does not delay the others", async () => {
  const hang = deferred<never>();
  let looks = 0;
  const row = (name: string, waiting: number) => ({ name, at: name, waiting });
  const source = (at: string, look: Source["look"]): Source => ({ at, look, async close() {} });
  const looker = new Looker([
    source("slow", () => {
      return ++looks === 1
        ? Promise.resolve({ queues: [row("slow", 1)], workers: [] })
        : hang.promise;
    }),
    source("quick", () => Promise.resolve({ queues: [row("quick", looks)], workers: [] })),
  ]);
  const { signal } = new AbortController();
  for (let i = 0; i < 3; i++) await looker.look(10, signal);
  assertEquals(looker.view().queues.map(({ name, waiting }) => [name, waiting]), [
    ["slow", 1],
    ["quick", 2],
  ]);
  assertEquals(looks, 2, "one question at a time");
});

it("lastcall top in a process runs until Ctrl+C and exits 0", async () => {
  using folder = new TempFolder();
  await send(`sqlite:${folder.file("jobs.db")}`, 4);
  const args = ["top", "sqlite:./jobs.db", "--interval", "10ms"];
  await using top = Child.start("../../../cli/mod", { args, cwd: folder.path });
  await top.matches(/queue default at sqlite:\.\/jobs\.db: 4 waiting,.* 0\.0 per second/);
  top.kill("SIGINT");
  const { code, stderr } = await top.exit();
  assertEquals({ code, stderr }, { code: 0, stderr: "" });
});
