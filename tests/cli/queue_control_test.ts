import { existsSync } from "node:fs";
import { describe, it } from "node:test";
import { assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { InMemoryMailbox, type Mailbox, openMailbox } from "../../mod.ts";
import { CliError } from "../../cli/_errors.ts";
import { type Print, rateText } from "../../cli/_print.ts";
import {
  limitQueue,
  parseRate,
  pauseQueue,
  resumeQueue,
} from "../../cli/commands/queue_control.ts";
import { VirtualClock } from "../../src/testing/mod.ts";
import { freePort } from "../engines/_servers.ts";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { lastcall } from "./_io.ts";
import { startWorker, TOKEN } from "./_worker.ts";
import { lacksLimits } from "./_limits.ts";

/** Collects the results of a command as values and as texts. */
function collector(): {
  readonly print: Print;
  readonly values: unknown[];
  readonly texts: string[];
} {
  const values: unknown[] = [];
  const texts: string[] = [];
  const result = (value: unknown, text: string) => void (values.push(value), texts.push(text));
  return { print: { json: false, result, list() {}, note() {} }, values, texts };
}

/** Returns the URL of a queue in a file with one message. */
async function queueIn(folder: TempFolder): Promise<string> {
  const url = `sqlite:${folder.file()}?queue=orders`;
  assertEquals((await lastcall(["send", url, "1"])).code, 0);
  return url;
}

async function deliveries(url: string): Promise<number> {
  await using mailbox = await openMailbox(url);
  const messages = await mailbox.receive();
  for (const message of messages) await message.release();
  return messages.length;
}

describe("lastcall pause and resume with the URL of a mailbox", () => {
  it("lastcall pause stops the deliveries of a queue to all processes, until lastcall resume", async () => {
    using folder = new TempFolder();
    const url = await queueIn(folder);
    assertEquals(
      (await lastcall(["pause", url])).out,
      'mailbox "orders" is paused until it is resumed\n',
    );
    assertEquals(await deliveries(url), 0);
    assertMatch((await lastcall(["count", url])).out, /, paused\n$/);
    assertEquals(
      (await lastcall(["resume", url])).out,
      'mailbox "orders" delivers messages again\n',
    );
    assertEquals(await deliveries(url), 1);
  });

  it("lastcall pause and resume write one value with --json", async () => {
    using folder = new TempFolder();
    const url = await queueIn(folder);
    assertEquals((await lastcall(["pause", url, "--json"])).json, [
      { state: "paused", mailbox: "orders", inFlight: 0 },
    ]);
    assertEquals((await lastcall(["resume", url, "--json"])).json, [
      { state: "resumed", mailbox: "orders" },
    ]);
  });

  it("lastcall pause --for ends by itself, and count and queues show the time left", {
    skip: lacksLimits,
  }, async () => {
    using folder = new TempFolder();
    const url = await queueIn(folder);
    const { json } = await lastcall(["pause", url, "--for", "1h", "--json"]);
    const [{ pausedForMs, ...rest }] = json;
    assertEquals(rest, { state: "paused", mailbox: "orders", inFlight: 0 });
    assertEquals(pausedForMs > 3_540_000 && pausedForMs <= 3_600_000, true, `${pausedForMs}`);
    assertMatch((await lastcall(["count", url])).out, /, paused for another (1 h|60 min)\n$/);
    assertMatch((await lastcall(["queues", url])).out, /orders .* yes, (1 h|60 min) left\n/);
    // A shorter pause does not shorten it.
    const { out } = await lastcall(["pause", url, "--for", "1m"]);
    assertMatch(out, /is paused for another (1 h|60 min)\n$/);
  });

  it("lastcall pause tells how long the pause lasts and what is in flight", async () => {
    const clock = new VirtualClock();
    await using mailbox = new InMemoryMailbox<unknown>("orders", { clock });
    await mailbox.sendMany([1, 2]);
    await mailbox.receive();
    const { print, values, texts } = collector();
    await pauseQueue(mailbox, 30_000, print);
    await pauseQueue(mailbox, 10_000, print);
    await pauseQueue(mailbox, undefined, print);
    assertEquals(texts, [
      'mailbox "orders" is paused for another 30 s; 1 in flight',
      'mailbox "orders" is paused for another 30 s; 1 in flight',
      'mailbox "orders" is paused until it is resumed; 1 in flight',
    ]);
    assertEquals(values[0], {
      ...{ state: "paused", mailbox: "orders", pausedForMs: 30_000, inFlight: 1 },
    });
    await resumeQueue(mailbox, print);
    assertEquals((await mailbox.receive()).length, 1);
  });

  it("lastcall pause takes the mailbox from the environment", async () => {
    using folder = new TempFolder();
    const url = await queueIn(folder);
    const env = { LASTCALL_MAILBOX: url };
    assertStringIncludes((await lastcall(["pause"], { env })).out, "is paused until");
    assertStringIncludes((await lastcall(["resume"], { env })).out, "delivers messages again");
  });

  it("lastcall pause pauses a group, also when LASTCALL_MAILBOX is set", async () => {
    await using worker = await startWorker([], { token: TOKEN });
    const env = { LASTCALL_MAILBOX: "redis://127.0.0.1:1" };
    const { code } = await lastcall(["pause", worker.url, "--token", TOKEN], { env });
    assertEquals([code, worker.group.health().paused], [0, true]);
    assertEquals((await worker.mailbox.stats()).paused, false);
  });

  it("lastcall pause and resume create no file", async () => {
    using folder = new TempFolder();
    for (const command of ["pause", "resume", "limit"]) {
      const { code, err } = await lastcall([command, `sqlite:${folder.file()}`]);
      assertEquals(code, 1);
      assertStringIncludes(err, `No file ${folder.file()}`);
    }
    assertEquals(existsSync(folder.file()), false);
  });

  const refused: readonly (readonly [args: readonly string[], message: string])[] = [
    [["pause"], "No URL: give that of a group, as localhost:8080, or of a mailbox"],
    [["resume"], "No URL: give that of a group"],
    [["pause", "pigeon://roof"], "pigeon://roof is not the URL of a health app or a mailbox"],
    [["pause", "memory:"], "ends with the process"],
    [["pause", ":8080", "--for", "30s"], "--for is for queues"],
    [["pause", "sqlite:./jobs.db", "--no-wait"], "--no-wait is for groups"],
    [["pause", "sqlite:./jobs.db", "--timeout", "60s"], "--timeout is for groups"],
    [["pause", "sqlite:./jobs.db", "--for", "0s"], "Write a time above 0"],
    [["pause", "sqlite:./jobs.db", "--for", "soon"], "Write 500ms, 30s, 2m"],
  ];
  for (const [args, message] of refused) {
    it(`lastcall ${args.join(" ")} is wrong usage`, async () => {
      const { code, out, err } = await lastcall(args);
      assertEquals({ code, out }, { code: 2, out: "" });
      assertStringIncludes(err, message);
    });
  }

  it("lastcall pause exits 1 when the server of the queue is unreachable", async () => {
    const { code, err } = await lastcall(
      ["pause", `redis://:s3cret@127.0.0.1:${await freePort()}`, "--json"],
    );
    assertEquals([code, JSON.parse(err).error.code], [1, "unavailable"]);
    assertEquals(err.includes("s3cret"), false);
  });

  it("lastcall pause, resume and limit say what an engine cannot do", async () => {
    await using mailbox = withoutControl("orders");
    const { print, values } = collector();
    const failure = async (work: Promise<void>) => {
      const error = await work.then(() => undefined, (error: unknown) => error);
      assertEquals(error instanceof CliError && error.exitCode, 1);
      return (error as CliError).message;
    };
    const lacks = 'The engine of mailbox "orders" cannot';
    assertEquals(
      await failure(pauseQueue(mailbox, undefined, print)),
      `${lacks} pause its deliveries: pause the groups that use it, as lastcall pause localhost:8080`,
    );
    assertStringIncludes(
      await failure(resumeQueue(mailbox, print)),
      `${lacks} resume its deliveries`,
    );
    assertEquals(
      await failure(limitQueue(mailbox, { max: 1, perMs: 1_000 }, print)),
      `${lacks} limit its deliveries`,
    );
    assertEquals(values, []);
  });
});

describe("lastcall limit", () => {
  it(
    "lastcall limit sets, shows and ends the limit of a queue",
    { skip: lacksLimits },
    async () => {
      using folder = new TempFolder();
      const url = await queueIn(folder);
      await lastcall(["send", url, "2", "3"]);
      const limit = async (...args: string[]) => (await lastcall(["limit", url, ...args])).out;
      assertEquals(await limit(), 'mailbox "orders" has no limit\n');
      assertEquals(await limit("2/h"), 'mailbox "orders" is limited to 2/h\n');
      assertEquals(await limit(), 'mailbox "orders" is limited to 2/h\n');
      assertEquals([await deliveries(url), await deliveries(url), await deliveries(url)], [
        1,
        1,
        0,
      ]);
      assertMatch((await lastcall(["count", url])).out, /, limit 2\/h\n$/);
      const queues = (await lastcall(["queues", url])).out;
      assertMatch(queues, / PAUSED +LIMIT\n/);
      assertMatch(queues, /orders .* no +2\/h\n/);
      const [{ rateLimit }] = (await lastcall(["count", url, "--json"])).json;
      assertEquals(rateLimit, { max: 2, perMs: 3_600_000 });
      assertEquals(await limit("off"), 'mailbox "orders" has no limit\n');
      assertEquals(await deliveries(url), 1);
    },
  );

  it("lastcall limit takes the mailbox from the environment", { skip: lacksLimits }, async () => {
    using folder = new TempFolder();
    const env = { LASTCALL_MAILBOX: await queueIn(folder) };
    const { json } = await lastcall(["limit", "10/500ms", "--json"], { env });
    assertEquals(json, [{ mailbox: "orders", rateLimit: { max: 10, perMs: 500 } }]);
    assertEquals((await lastcall(["limit", "--json"], { env })).json, json);
    assertEquals((await lastcall(["limit", "off", "--json"], { env })).json, [
      { mailbox: "orders", rateLimit: false },
    ]);
  });

  it("lastcall limit sets and ends the limit that deliveries obey", async () => {
    const clock = new VirtualClock();
    await using mailbox = new InMemoryMailbox<unknown>("orders", { clock });
    await mailbox.sendMany([1, 2, 3, 4]);
    const { print, values, texts } = collector();
    await limitQueue(mailbox, parseRate("3/m"), print);
    assertEquals((await mailbox.receive({ maxMessages: 10 })).length, 3);
    await limitQueue(mailbox, undefined, print);
    await limitQueue(mailbox, parseRate("off"), print);
    assertEquals((await mailbox.receive({ maxMessages: 10 })).length, 1);
    await limitQueue(mailbox, undefined, print);
    assertEquals(texts, [
      'mailbox "orders" is limited to 3/m',
      'mailbox "orders" is limited to 3/m',
      'mailbox "orders" has no limit',
      'mailbox "orders" has no limit',
    ]);
    assertEquals(values[1], { mailbox: "orders", rateLimit: { max: 3, perMs: 60_000 } });
    assertEquals(values[3], { mailbox: "orders", rateLimit: false });
  });

  const rates: readonly (readonly [text: string, max: number, perMs: number])[] = [
    ["100/s", 100, 1_000],
    ["600/m", 600, 60_000],
    ["10/500ms", 10, 500],
    ["1/h", 1, 3_600_000],
    ["1000000/d", 1_000_000, 86_400_000],
    ["5/90s", 5, 90_000],
    ["7/ms", 7, 1],
  ];
  it("lastcall limit reads rates, and writes them in the same way", () => {
    for (const [text, max, perMs] of rates) {
      assertEquals(parseRate(text), { max, perMs }, text);
      assertEquals(rateText({ max, perMs }), text);
    }
    assertEquals(parseRate("3/1.5s"), { max: 3, perMs: 1_500 });
    assertEquals(parseRate("off"), false);
  });

  it("lastcall limit refuses an invalid rate, and says what is allowed", async () => {
    for (const text of ["100", "100/", "/s", "fast", "100/w", "1.5/s", "100 / s", "10/500"]) {
      const { code, out, err } = await lastcall(["limit", "sqlite:./jobs.db", text]);
      assertEquals({ code, out }, { code: 2, out: "" });
      assertStringIncludes(err, `Invalid rate ${text}: write messages per period, as 100/s`);
    }
    for (const text of ["0/s", "1000001/s", "1/0ms", "1/25h"]) {
      assertThrows(
        () => parseRate(text),
        CliError,
        `Invalid rate ${text}: write 1 to 1000000 messages per period of 1ms to 1d`,
      );
    }
  });

  it("lastcall limit refuses further arguments", async () => {
    const env = { LASTCALL_MAILBOX: "sqlite:./jobs.db" };
    const { code, err } = await lastcall(["limit", "jobs", "1/s"], { env });
    assertEquals(code, 2);
    assertStringIncludes(err, "jobs is not a mailbox");
  });
});

/** Returns a mailbox whose engine has neither pauses nor limits. */
function withoutControl(name: string): Mailbox<unknown> {
  const mailbox = new InMemoryMailbox<unknown>(name);
  const capabilities = { ...mailbox.capabilities, pause: false, rateLimit: false };
  Object.defineProperty(mailbox, "capabilities", { value: capabilities });
  return mailbox;
}
