import { existsSync } from "node:fs";
import { describe, it } from "node:test";
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { openMailbox } from "../../mod.ts";
import { FakeRuntime } from "../../src/testing/mod.ts";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { lastcall } from "./_io.ts";

/** Returns the URL of a mailbox in this folder. */
function place(folder: TempFolder, query = ""): string {
  return `sqlite:${folder.file()}${query}`;
}

async function bodies(url: string): Promise<unknown[]> {
  const { json } = await lastcall(["peek", url, "-n", "1000", "--json"]);
  return json.map(({ body }) => body);
}

describe("send", () => {
  it("sends JSON values and prints their ids", async () => {
    using folder = new TempFolder();
    const { code, json } = await lastcall(["send", place(folder), '{"a":1}', "2", "--json"]);
    assertEquals(code, 0);
    const seen = await lastcall(["peek", place(folder), "--json"]);
    assertEquals(seen.json.map(({ id, body }) => ({ id, body })), [
      { id: json[0].id, body: { a: 1 } },
      { id: json[1].id, body: 2 },
    ]);
  });

  it("send prints text without --json", async () => {
    using folder = new TempFolder();
    const { out } = await lastcall(["send", place(folder), "1", "--id", "first"]);
    assertEquals(out, "sent first\n");
  });

  it("send distinguishes a duplicate from a stored message", async () => {
    using folder = new TempFolder();
    const send = (...args: string[]) => lastcall(["send", place(folder), ...args]);
    assertEquals((await send("1", "--id", "first", "--json")).json, [{
      id: "first",
      stored: true,
    }]);
    const { code, out } = await send("2", "--id", "first");
    assertEquals({ code, out }, {
      code: 0,
      out: "not stored first: the mailbox has a message with this id\n",
    });
    const again = await send("2", "--id", "first", "--json");
    assertEquals(again.json, [{ id: "first", stored: false }]);
    const [many, ...more] = (await send("3", "4", "--json")).json;
    assertEquals([many.stored, more[0].stored], [true, true]);
    const piped = await lastcall(["send", place(folder), "--json"], { lines: ["5"] });
    assertEquals(piped.json.map(({ stored }) => stored), [true]);
    assertEquals(await bodies(place(folder)), [1, 3, 4, 5]);
  });

  it("sends text with --text", async () => {
    using folder = new TempFolder();
    await lastcall(["send", place(folder), "--text", "hello", "{not json"]);
    assertEquals(await bodies(place(folder)), ["hello", "{not json"]);
  });

  it("send passes --delay and --reply-to to the mailbox", async () => {
    using folder = new TempFolder();
    await lastcall(["send", place(folder), "1", "--delay", "1h", "--reply-to", "answers"]);
    await lastcall(["send", place(folder), "2", "--reply-to", "answers"]);
    await using mailbox = await openMailbox(place(folder));
    const received = await mailbox.receive({ maxMessages: 10 });
    assertEquals(received.map(({ body, replyTo }) => ({ body, replyTo })), [
      { body: 2, replyTo: "answers" },
    ]);
  });

  it("send takes the mailbox from the environment", async () => {
    using folder = new TempFolder();
    const env = { LASTCALL_MAILBOX: place(folder) };
    assertEquals((await lastcall(["send", '{"a":1}'], { env })).code, 0);
    assertEquals((await lastcall(["count", "--json"], { env })).json[0].messages, 1);
  });

  it("send prefers the mailbox argument to the environment", async () => {
    using folder = new TempFolder();
    const env = { LASTCALL_MAILBOX: "redis://127.0.0.1:1" };
    assertEquals((await lastcall(["send", place(folder), "1"], { env })).code, 0);
  });

  it("send reads one JSON value a line, in order, and skips empty lines", async () => {
    using folder = new TempFolder();
    const lines = Array.from({ length: 1_200 }, (_, at) => String(at)).toSpliced(600, 0, "", " ");
    const { out } = await lastcall(["send", place(folder)], { lines });
    assertEquals(out, "sent 1200 messages\n");
    assertEquals((await bodies(place(folder))).slice(598, 602), [598, 599, 600, 601]);
  });

  it("sends each line at once, without waiting for the end", async () => {
    using folder = new TempFolder();
    const url = place(folder);
    async function* lines() {
      yield "1";
      // The next line exists only after the first one has arrived.
      await using mailbox = await openMailbox(url);
      const [message] = await mailbox.receive({ waitTimeMs: 10_000 });
      await message!.acknowledge();
      yield "2";
    }
    assertEquals((await lastcall(["send", url, "-"], { lines: lines() })).code, 0);
    assertEquals(await bodies(url), [2]);
  });

  it("send waits while the mailbox is full", async () => {
    using folder = new TempFolder();
    const url = place(folder, "?maxSize=2");
    const sending = lastcall(["send", url], { lines: ["1", "2", "3"] });
    await using mailbox = await openMailbox(url);
    const received: unknown[] = [];
    while (received.length < 3) {
      for (const message of await mailbox.receive({ waitTimeMs: 10_000 })) {
        received.push(message.body);
        await message.acknowledge();
      }
    }
    assertEquals(received, [1, 2, 3]);
    assertEquals((await sending).code, 0);
  });

  it("send reports the bad line, and how many messages it has sent", async () => {
    using folder = new TempFolder();
    const { code, err } = await lastcall(["send", place(folder)], { lines: ["1", "", "x", "2"] });
    assertEquals(code, 1);
    assertMatch(
      err,
      /^error: Line 3 is not JSON: x\. Write one JSON value a line, or add --text; sent before that: 1 message\n/,
    );
    assertEquals(err.includes("shell"), false, "standard input does not pass through the shell");
    assertEquals(await bodies(place(folder)), [1]);
  });

  it("send reports on Ctrl+C how many it has sent, and exits 130", async () => {
    using folder = new TempFolder();
    const runtime = new FakeRuntime();
    async function* lines() {
      yield* ["1", "2"];
      await using mailbox = await openMailbox(place(folder));
      await mailbox.receive({ waitTimeMs: 10_000 }); // both have arrived
      runtime.send("SIGINT");
      await new Promise(() => {}); // never yields again, and never ends
    }
    const { code, err } = await lastcall(["send", place(folder)], { lines: lines(), runtime });
    assertEquals(code, 130);
    assertEquals(err, "error: Stopped by SIGINT; sent before that: 2 messages\n");
    assertEquals(runtime.listening, 0);
  });

  it("send shows progress on a terminal", async () => {
    using folder = new TempFolder();
    const { err } = await lastcall(["send", place(folder)], { lines: ["1"], interactive: true });
    assertStringIncludes(err, "sending  1");
    assert(err.endsWith("\r\x1b[K"), "the line is removed in the end");
  });

  const refused: readonly (readonly [name: string, args: readonly string[], message: string])[] = [
    ["a body that is not JSON", ["{a:1}"], "Body 1 is not JSON: {a:1}"],
    ["an id for several messages", ["1", "2", "--id", "x"], "--id needs exactly one body"],
    ["an invalid delay", ["1", "--delay", "soon"], "Write 500ms, 30s, 2m, 1h"],
    ["no body on a terminal", [], "Nothing to send"],
    ["an empty id", ["1", "--id", ""], "Invalid --id: it must not be empty"],
  ];
  for (const [name, args, message] of refused) {
    it(`send refuses ${name}`, async () => {
      using folder = new TempFolder();
      const { code, out, err } = await lastcall(["send", place(folder), ...args]);
      assertEquals({ code, out }, { code: 2, out: "" });
      assertStringIncludes(err, message);
    });
  }

  it("send creates no file for a refused body", async () => {
    using folder = new TempFolder();
    await lastcall(["send", place(folder), "{a:1}"]);
    assertEquals(existsSync(folder.file()), false);
  });
});

describe("peek and count", () => {
  it("peek and count show messages without receiving them", async () => {
    using folder = new TempFolder();
    await lastcall(["send", place(folder), '{"a":1}', "--id", "one"]);
    for (const _ of [1, 2]) {
      const { out } = await lastcall(["peek", place(folder)]);
      assertMatch(
        out,
        /^ID +STATE +DELIVERIES +AGE +BODY\none +waiting +0 +\d+ m?s +\{"a":1\}\n$/,
      );
    }
    assertMatch(
      (await lastcall(["count", place(folder)])).out,
      /^1 message \(.*\), 0 dead letters\n$/,
    );
  });

  it("peek shows how far a message is: the number of its finished steps, and their names with --id", async () => {
    using folder = new TempFolder();
    await lastcall(["send", place(folder), "1", "--id", "one"]);
    const mailbox = await openMailbox(place(folder));
    const [message] = await mailbox.receive();
    await message!.saveStep({ name: "charge", place: 1, result: 7 });
    await message!.saveStep({ name: "mail", place: 2 });
    await mailbox.close();
    const { out } = await lastcall(["peek", place(folder), "--id", "one"]);
    assertMatch(out, /^steps +charge, mail$/m);
    const list = await lastcall(["peek", place(folder)]);
    assertMatch(list.out, /^ID +STATE +STEPS +DELIVERIES .*\none +in flight +2 +1 /);
    const { json: [peeked] } = await lastcall(["peek", place(folder), "--json"]);
    assertEquals(peeked.steps, [{ name: "charge", place: 1, result: 7 }, {
      name: "mail",
      place: 2,
    }]);
  });

  it("peek and count show at most --limit messages, oldest first", async () => {
    using folder = new TempFolder();
    await lastcall(["send", place(folder), "1", "2", "3"]);
    const { json } = await lastcall(["peek", place(folder), "-n", "2", "--json"]);
    assertEquals(json.map(({ body }) => body), [1, 2]);
  });

  it("peek and count say that there are no messages, and write nothing with --json", async () => {
    using folder = new TempFolder();
    await lastcall(["send", place(folder), "1"]);
    const other = place(folder, "?queue=other");
    assertEquals((await lastcall(["peek", other])).out, "no messages\n");
    assertEquals((await lastcall(["peek", other, "--json"])).out, "");
  });

  it("peek and count escape control characters of messages", async () => {
    using folder = new TempFolder();
    await lastcall(["send", place(folder), "1", "--id", "a\x1b[31m\nb"]);
    const { out } = await lastcall(["peek", place(folder)], { env: { NO_COLOR: "1" } });
    assertStringIncludes(out, "a·[31m⏎b");
  });

  for (const command of ["peek", "count", "purge"]) {
    it(`${command} refuses a missing file and does not create it`, async () => {
      using folder = new TempFolder();
      const { code, err } = await lastcall([command, place(folder)]);
      assertEquals(code, 1);
      assertStringIncludes(err, `No file ${folder.file()}`);
      assertEquals(existsSync(folder.file()), false);
    });

    it(`${command} refuses an unusable mailbox`, async () => {
      const message = async (...args: string[]) => {
        const { code, err } = await lastcall([command, ...args]);
        assertEquals(code, 2, err);
        return err;
      };
      assertStringIncludes(await message(), "No mailbox: give its URL");
      assertStringIncludes(await message("memory:"), "ends with the process");
      assertStringIncludes(await message("pigeon:roof"), 'Unknown scheme "pigeon"');
      assertStringIncludes(await message("jobs.db"), "Malformed mailbox URL");
      assertStringIncludes(await message("sqlite:.?quue=1"), 'Unknown parameter "quue"');
    });

    it(`${command} refuses a second mailbox`, async () => {
      const { code } = await lastcall([command, "sqlite:./a.db", "sqlite:./b.db"]);
      assertEquals(code, 2);
    });
  }
});

describe("purge", () => {
  it("purge asks, and deletes when the answer is yes", async () => {
    using folder = new TempFolder();
    await lastcall(["send", place(folder), "1", "2"]);
    const { code, out, err } = await lastcall(["purge", place(folder)], { answer: "y" });
    assertEquals({ code, out }, { code: 0, out: "deleted 2 messages\n" });
    assertStringIncludes(err, 'Delete 2 messages of mailbox "default"? [y/N]');
    assertEquals(await bodies(place(folder)), []);
  });

  it("purge changes nothing when the answer is anything else", async () => {
    using folder = new TempFolder();
    await lastcall(["send", place(folder), "1"]);
    for (const answer of ["", "n", "yeah"]) {
      const { code, err } = await lastcall(["purge", place(folder)], { answer });
      assertEquals(code, 1);
      assertStringIncludes(err, "Nothing was changed");
    }
    assertEquals(await bodies(place(folder)), [1]);
  });

  it("purge refuses without a terminal", async () => {
    using folder = new TempFolder();
    await lastcall(["send", place(folder), "1"]);
    const { code, err } = await lastcall(["purge", place(folder)], { lines: ["y"] });
    assertEquals(code, 2);
    assertStringIncludes(err, "add --yes to delete");
    assertEquals(await bodies(place(folder)), [1]);
  });

  it("purge does not ask with --yes", async () => {
    using folder = new TempFolder();
    await lastcall(["send", place(folder), "1"]);
    const { json } = await lastcall(["purge", place(folder), "--yes", "--json"], { lines: [] });
    assertEquals(json, [{ deleted: 1 }]);
  });
});

describe("deliver", () => {
  it("deliver ends the delay of messages, and fails for those that are not delayed", async () => {
    using folder = new TempFolder();
    const url = place(folder);
    await lastcall(["send", url, "1", "--id", "later", "--delay", "1h"]);
    await lastcall(["send", url, "2", "--id", "now"]);
    const { code, json, err } = await lastcall(["deliver", url, "later", "now", "z", "--json"]);
    assertEquals([code, json], [1, [
      { id: "later", delivered: true },
      { id: "now", delivered: false },
      { id: "z", delivered: false },
    ]]);
    assertEquals(JSON.parse(err).error.message, "No delayed message has the id now, z");
    const { json: peeked } = await lastcall(["peek", url, "--json"]);
    assertEquals(peeked.map(({ state }) => state), ["waiting", "waiting"]);
  });

  it("deliver refuses to run without an id", async () => {
    const { code, err } = await lastcall(["deliver", "sqlite:./a.db"]);
    assertEquals(code, 2);
    assertStringIncludes(err, "No id: give one that `lastcall peek` shows");
  });
});

describe("peek --skip", () => {
  it("peek leaves out the first messages", async () => {
    using folder = new TempFolder();
    await lastcall(["send", place(folder), "1", "2", "3", "4"]);
    const peek = async (...args: string[]) => {
      const { json } = await lastcall(["peek", place(folder), ...args, "--json"]);
      return json.map(({ body }) => body);
    };
    assertEquals(await peek("-n", "2", "--skip", "1"), [2, 3]);
    assertEquals(await peek("--skip", "4"), []);
  });

  it("peek refuses --skip with --id", async () => {
    const { code } = await lastcall(["peek", "sqlite:./a.db", "--id", "a", "--skip", "1"]);
    assertEquals(code, 2);
  });
});
