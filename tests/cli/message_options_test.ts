import { existsSync } from "node:fs";
import { describe, it } from "node:test";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { openMailbox } from "../../mod.ts";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { lastcall } from "./_io.ts";

describe("lastcall send with options of messages", () => {
  it("send passes key, priority, expiry, headers and max deliveries to the mailbox", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    const flags = [
      ...["--key", "ada", "--priority", "7", "--expires", "1d", "--max-deliveries", "3"],
      ...["--header", "tenant=42", "--header", "note=a=b", "--reply-to", "answers"],
    ];
    assertEquals((await lastcall(["send", url, "1", ...flags])).code, 0);
    await lastcall(["send", url, ...flags], { lines: ["2"] });
    await using mailbox = await openMailbox(url);
    const sent = (await mailbox.peek!(10)).map(({ id: _, enqueuedAt: __, ...message }) => message);
    const fields = {
      ...{
        state: "waiting" as const,
        deliveryCount: 0,
        key: "ada",
        priority: 7,
        expiresInMs: 86_400_000,
      },
      ...{ maxDeliveries: 3, headers: { tenant: "42", note: "a=b" }, replyTo: "answers" },
    };
    assertEquals(sent, [{ body: 1, ...fields }, { body: 2, ...fields }]);
  });

  it("send --at hides the message until then, and delivers it at once when the time has passed", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    const inOneDay = new Date(Date.now() + 86_400_000).toISOString();
    await lastcall(["send", url, "1", "--at", inOneDay]);
    await lastcall(["send", url, "2", "--at", "2001-01-31T08:00+01:00"]);
    await using mailbox = await openMailbox(url);
    const states = (await mailbox.peek!(10)).map(({ body, state }) => [body, state]);
    assertEquals(states, [[1, "delayed"], [2, "waiting"]]);
  });

  it("send --dedup remembers the id after the message was handled", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    const send = (...flags: string[]) => lastcall(["send", url, "1", "--id", "a", ...flags]);
    assertEquals((await send("--dedup", "1h")).out, "sent a\n");
    {
      await using mailbox = await openMailbox(url);
      const [message] = await mailbox.receive();
      await message!.acknowledge();
    }
    assertEquals(await send("--dedup", "1h").then(({ code, out }) => ({ code, out })), {
      code: 0,
      out: "not stored a: the mailbox has a message with this id, or remembers the id of an " +
        "earlier one\n",
    });
    assertEquals((await send("--dedup", "1h", "--json")).json, [{ id: "a", stored: false }]);
    assertEquals((await send()).out, "sent a\n", "without --dedup only stored messages count");
  });

  const refused: readonly (readonly [what: string, flags: readonly string[], message: string])[] = [
    ["a priority above 9", ["--priority", "10"], "Write a whole number from 0 to 9"],
    [
      "a date without a time",
      ["--at", "2030-01-31"],
      "Write a date and time, as 2030-01-31T08:00Z",
    ],
    ["a time that does not exist", ["--at", "2030-13-31T08:00Z"], "Write a date and time"],
    ["a time after ten years", ["--at", "2999-01-31T08:00Z"], "at most 3650 days from now"],
    ["a delay of more than ten years", ["--delay", "4000d"], "Write at most 3650d"],
    ["--at and --delay", ["--at", "2030-01-31T08:00Z", "--delay", "1s"], "cannot be used with"],
    ["an expiry of nothing", ["--expires", "0s"], "Write a time above 0"],
    ["--dedup without --id", ["--dedup", "1h"], "--dedup needs --id"],
    ["a header without a value", ["--header", "tenant"], "Write name=value"],
    ["a header without a name", ["--header", "=42"], "Write name=value"],
    ["a header twice", ["--header", "a=1", "--header", "a=2"], "Write each name once"],
    ["an empty key", ["--key", ""], "Invalid key"],
    ["no deliveries", ["--max-deliveries", "0"], "Write a whole number of 1 or more"],
  ];
  for (const [what, flags, message] of refused) {
    it(`send refuses ${what}, and creates no file`, async () => {
      using folder = new TempFolder();
      const { code, out, err } = await lastcall(["send", `sqlite:${folder.file()}`, "1", ...flags]);
      assertEquals({ code, out }, { code: 2, out: "" });
      assertStringIncludes(err, message);
      assertEquals(existsSync(folder.file()), false);
    });
  }
});

/** Leaves a message in each state, and a dead letter. */
async function fill(url: string): Promise<void> {
  await using mailbox = await openMailbox(url);
  await mailbox.send("burnt", { id: "burnt" });
  const [burnt] = await mailbox.receive();
  await burnt!.deadLetter({ reason: "test" });
  await mailbox.send("tea", { id: "tea", headers: { tenant: "42" }, replyTo: "answers" });
  const [tea] = await mailbox.receive();
  await tea!.saveCheckpoint({ page: 3 });
  await mailbox.send("pie", { id: "pie", delayMs: 3_600_000 });
  await mailbox.send("cake", { id: "cake", key: "ada", priority: 5, expiresInMs: 60_000 });
  await mailbox.send("soup", { id: "soup", key: "ada" });
}

describe("lastcall count", () => {
  it("count shows the messages by state, the age of the oldest, and dead letters", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    await fill(url);
    assertMatch(
      (await lastcall(["count", url])).out,
      /^4 messages \(2 waiting, 1 delayed, 1 in flight, oldest \d+ m?s\), 1 dead letter\n$/,
    );
    const [{ oldestWaitingMs, ...counts }] = (await lastcall(["count", url, "--json"])).json;
    assertEquals(counts, {
      ...{ messages: 4, waiting: 2, delayed: 1, inFlight: 1, dead: 1 },
      paused: false,
    });
    assertEquals(typeof oldestWaitingMs, "number");
  });

  it("count shows an empty mailbox in few words, and that it is paused", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    {
      await using mailbox = await openMailbox(url);
      await mailbox.pause();
    }
    assertEquals((await lastcall(["count", url])).out, "0 messages, 0 dead letters, paused\n");
  });
});

describe("lastcall peek", () => {
  it("peek shows the state of each message, and its key and priority", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    await fill(url);
    const { out } = await lastcall(["peek", url]);
    const lines = out.split("\n").map((line) => line.replace(/\d+ m?s/, "AGE").split(/ {2,}/));
    assertEquals(lines[0], ["ID", "STATE", "KEY", "PRIORITY", "DELIVERIES", "AGE", "BODY"]);
    assertEquals(
      new Set(lines.slice(1, -1).map(String)),
      new Set([
        'tea,in flight,1,AGE,"tea"',
        'pie,delayed,0,AGE,"pie"',
        'cake,waiting,ada,5,0,AGE,"cake"',
        'soup,waiting,ada,0,AGE,"soup"',
      ]),
    );
  });

  it("peek --id shows one message with its headers, checkpoint and expiry", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    await fill(url);
    assertMatch(
      (await lastcall(["peek", url, "--id", "tea"])).out,
      new RegExp([
        "^id          tea",
        "state       in flight",
        "deliveries  1",
        "sent at     \\S+Z",
        "reply to    answers",
        'headers     {"tenant":"42"}',
        'checkpoint  {"page":3}',
        'body        "tea"\n$',
      ].join("\n")),
    );
    const [cake] = (await lastcall(["peek", url, "--id", "cake", "--json"])).json;
    const { enqueuedAt } = cake;
    assertEquals(cake, {
      ...{ id: "cake", body: "cake", state: "waiting", deliveryCount: 0, enqueuedAt },
      ...{ headers: {}, key: "ada", priority: 5, expiresInMs: 60_000 },
    });
    const { out } = await lastcall(["peek", url, "--id", "cake"]);
    assertStringIncludes(out, `expires at  ${new Date(enqueuedAt + 60_000).toISOString()}\n`);
  });

  it("peek --id says that there is no such message, and exits 1", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    await fill(url);
    const { code, out, err } = await lastcall(["peek", url, "--id", "bread"]);
    assertEquals({ code, out, err }, {
      code: 1,
      out: "",
      err: "error: No message has the id bread\n",
    });
  });

  it("peek refuses --id together with --limit", async () => {
    const { code, err } = await lastcall(["peek", "sqlite:./a.db", "--id", "a", "-n", "1"]);
    assertEquals(code, 2);
    assertStringIncludes(err, "cannot be used with option '-n, --limit <count>'");
  });
});

describe("lastcall cancel", () => {
  it("cancel deletes messages in any state, and says for each whether it existed", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    await fill(url);
    const cancel = (...args: string[]) => lastcall(["cancel", url, ...args]);
    const { code, out } = await cancel("tea", "pie");
    assertEquals({ code, out }, { code: 0, out: "cancelled tea\ncancelled pie\n" });
    const again = await cancel("tea", "cake", "--json");
    assertEquals([again.code, again.json], [1, [
      { id: "tea", cancelled: false },
      { id: "cake", cancelled: true },
    ]]);
    assertEquals(JSON.parse(again.err).error, {
      message: "No message has the id tea",
      code: "not_found",
    });
    const text = await cancel("tea");
    assertEquals(text.out, "not found tea\n");
    assertEquals((await lastcall(["peek", url, "--json"])).json.map(({ id }) => id), ["soup"]);
  });

  it("cancel refuses to run without an id", async () => {
    assertEquals((await lastcall(["cancel", "sqlite:./a.db"])).code, 2);
  });
});

describe("lastcall queues", () => {
  it("queues lists all queues of a file with their counts, whatever the queue of the URL", async () => {
    using folder = new TempFolder();
    const file = `sqlite:${folder.file()}`;
    await fill(`${file}?queue=orders`);
    {
      await using mails = await openMailbox(`${file}?queue=mails`);
      await mails.send("hello");
      await mails.pause();
    }
    for (const url of [file, `${file}?queue=mails`]) {
      const { json } = await lastcall(["queues", url, "--json"]);
      const used = json.filter(({ name }) => name !== "default");
      assertEquals(used.map(({ oldestWaitingMs: _, ...queue }) => queue), [
        { name: "mails", waiting: 1, delayed: 0, inFlight: 0, dead: 0, paused: true },
        { name: "orders", waiting: 2, delayed: 1, inFlight: 1, dead: 1, paused: false },
      ]);
    }
    const { out } = await lastcall(["queues", file]);
    assertMatch(out, /^QUEUE +WAITING +DELAYED +IN FLIGHT +DEAD +OLDEST +PAUSED\n/);
    assertMatch(out, /mails +1 +0 +0 +0 +\d+ m?s +yes\norders +2 +1 +1 +1 +\d+ m?s +no\n/);
  });

  it("queues creates no file", async () => {
    using folder = new TempFolder();
    const { code, err } = await lastcall(["queues", `sqlite:${folder.file()}`]);
    assertEquals(code, 1);
    assertStringIncludes(err, `No file ${folder.file()}`);
  });
});
