import { describe, it } from "node:test";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { openMailbox } from "../../mod.ts";
import { FakeRuntime } from "../../src/testing/mod.ts";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { lastcall } from "./_io.ts";

/** Makes a mailbox with these dead letters: the ids, each with its reason. */
async function withLetters(
  folder: TempFolder,
  letters: Readonly<Record<string, string>>,
): Promise<string> {
  const url = `sqlite:${folder.file()}`;
  await using mailbox = await openMailbox(url);
  for (const [id, reason] of Object.entries(letters)) {
    await mailbox.send({ order: id }, { id, replyTo: "answers" });
    const [message] = await mailbox.receive();
    await message!.deadLetter({ reason, error: `Error: ${id} failed` });
  }
  return url;
}

const ids = async (url: string) => {
  const { json } = await lastcall(["dlq", "list", url, "--json"]);
  return json.map(({ id }) => id);
};

describe("dlq list and show", () => {
  it("dlq list and show list dead letters with their reasons", async () => {
    using folder = new TempFolder();
    const url = await withLetters(folder, { a: "max_deliveries", b: "schema" });
    const { out } = await lastcall(["dlq", "list", url]);
    assertMatch(
      out,
      /^ID +DELIVERIES +DEAD FOR +REASON +ERROR\na +1 +\d+ m?s +max_deliveries +Error: a failed\nb /,
    );
    const { json } = await lastcall(["dlq", "list", url, "-n", "1", "--json"]);
    assertEquals(json.map(({ id, reason, body }) => ({ id, reason, body })), [
      { id: "a", reason: "max_deliveries", body: { order: "a" } },
    ]);
  });

  it("dlq list and show say when there are no dead letters", async () => {
    using folder = new TempFolder();
    const url = await withLetters(folder, {});
    assertEquals((await lastcall(["dlq", "list", url])).out, "no dead letters\n");
  });

  it("dlq list and show show all details of one", async () => {
    using folder = new TempFolder();
    const url = await withLetters(folder, { a: "schema", b: "schema" });
    const { out } = await lastcall(["dlq", "show", url, "b"]);
    assertMatch(out, /^id +b\nreason +schema\nerror +Error: b failed\ndeliveries +1\n/);
    assertMatch(
      out,
      /\nsent at +\d{4}-.*\ndead since +\d{4}-.*\nreply to +answers\nbody +\{"order":"b"\}\n$/,
    );
    const { json } = await lastcall(["dlq", "show", "b", "--json"], {
      env: { LASTCALL_MAILBOX: url },
    });
    assertEquals(json[0].body, { order: "b" });
  });

  it("dlq list and show refuse a missing or an unknown id", async () => {
    using folder = new TempFolder();
    const url = await withLetters(folder, { a: "schema" });
    const missing = await lastcall(["dlq", "show", url]);
    assertEquals(missing.code, 2);
    assertStringIncludes(missing.err, "No id: give one");
    const unknown = await lastcall(["dlq", "show", url, "z", "--json"]);
    assertEquals(unknown.code, 1);
    assertEquals(JSON.parse(unknown.err), {
      error: { message: "No dead letter has the id z", code: "not_found" },
    });
  });

  it("dlq list leaves out the first ones with --skip", async () => {
    using folder = new TempFolder();
    const url = await withLetters(folder, { a: "schema", b: "schema", c: "schema", d: "schema" });
    const { json } = await lastcall(["dlq", "list", url, "-n", "2", "--skip", "1", "--json"]);
    assertEquals(json.map(({ id }) => id), ["b", "c"]);
    assertEquals((await lastcall(["dlq", "list", url, "--skip", "4"])).out, "no dead letters\n");
    const refused = await lastcall(["dlq", "list", url, "--skip", "-1"]);
    assertEquals(refused.code, 2);
  });

  it("dlq show finds a dead letter behind more than a thousand others", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    {
      await using mailbox = await openMailbox(url);
      const all = Array.from({ length: 1_010 }, (_, i) => i);
      await mailbox.sendMany(all, (_, i) => ({ id: `order-${i}` }));
      for (const maxMessages of [1_000, 10]) {
        const messages = await mailbox.receive({ maxMessages });
        await Promise.all(messages.map((message) => message.deadLetter({ reason: "test" })));
      }
    }
    const { code, json } = await lastcall(["dlq", "show", url, "order-1009", "--json"]);
    assertEquals([code, json[0]?.body], [0, 1_009]);
    assertEquals((await lastcall(["dlq", "redrive", url, "order-1008"])).code, 0);
    assertEquals((await lastcall(["count", url, "--json"])).json[0].dead, 1_009);
  });
});

describe("dlq delete", () => {
  const letters = { a: "schema", b: "schema", c: "schema" };

  it("dlq delete asks, and deletes the dead letters with these ids", async () => {
    using folder = new TempFolder();
    const url = await withLetters(folder, letters);
    const refused = await lastcall(["dlq", "delete", url, "a", "c"], { answer: "no" });
    assertEquals(refused.code, 1);
    assertStringIncludes(refused.err, 'Delete 2 dead letters of mailbox "');
    assertEquals(await ids(url), ["a", "b", "c"]);
    const { code, out } = await lastcall(["dlq", "delete", url, "a", "c"], { answer: "yes" });
    assertEquals({ code, out }, { code: 0, out: "deleted a\ndeleted c\n" });
    assertEquals(await ids(url), ["b"]);
    assertEquals((await lastcall(["count", url, "--json"])).json[0].waiting, 0);
  });

  it("dlq delete with --yes does not ask, and fails for ids without a dead letter", async () => {
    using folder = new TempFolder();
    const url = await withLetters(folder, letters);
    const ended = await lastcall(["dlq", "delete", url, "z", "b", "--yes", "--json"]);
    assertEquals([ended.code, ended.json], [1, [
      { id: "z", deleted: false },
      { id: "b", deleted: true },
    ]]);
    assertEquals(JSON.parse(ended.err).error.message, "No dead letter has the id z");
    assertEquals(await ids(url), ["a", "c"]);
  });

  it("dlq delete refuses to run without an id", async () => {
    const { code, err } = await lastcall(["dlq", "delete", "sqlite:./a.db", "--yes"]);
    assertEquals(code, 2);
    assertStringIncludes(err, "No id: give one that `lastcall dlq list` shows");
  });
});

describe("dlq redrive", () => {
  it("dlq redrive redrives all, with their old ids", async () => {
    using folder = new TempFolder();
    const url = await withLetters(folder, { a: "schema", b: "max_deliveries" });
    const { code, out } = await lastcall(["dlq", "redrive", url]);
    assertEquals({ code, out }, { code: 0, out: "sent 2 dead letters back\n" });
    assertEquals(await ids(url), []);
    const { json } = await lastcall(["peek", url, "--json"]);
    assertEquals(json.map(({ id, deliveryCount }) => ({ id, deliveryCount })), [
      { id: "a", deliveryCount: 0 },
      { id: "b", deliveryCount: 0 },
    ]);
  });

  const letters = { a: "schema", b: "max_deliveries", c: "schema" };
  // deno-fmt-ignore -- a table: a choice, and the ids that are left
  const choices: readonly (readonly [name: string, args: readonly string[], left: readonly string[]])[] = [
    ["by id", ["b"], ["a", "c"]],
    ["by several ids", ["c", "a"], ["b"]],
    ["by reason", ["--reason", "schema"], ["b"]],
    ["by several reasons", ["--reason", "schema", "max_deliveries"], []],
    ["at most --limit", ["--limit", "1"], ["b", "c"]],
  ];
  for (const [name, args, left] of choices) {
    it(`dlq redrive chooses ${name}`, async () => {
      using folder = new TempFolder();
      const url = await withLetters(folder, letters);
      const { code } = await lastcall(["dlq", "redrive", url, ...args]);
      assertEquals(code, 0);
      assertEquals(await ids(url), [...left]);
    });
  }

  it("dlq redrive redrives the ids that exist, and fails for the others", async () => {
    using folder = new TempFolder();
    const url = await withLetters(folder, letters);
    const { code, out, err } = await lastcall(["dlq", "redrive", url, "a", "z"]);
    assertEquals({ code, out }, { code: 1, out: "sent 1 dead letter back\n" });
    assertStringIncludes(err, "No dead letter has the id z");
    assertEquals(await ids(url), ["b", "c"]);
  });

  it("dlq redrive shows progress on a terminal", async () => {
    using folder = new TempFolder();
    const url = await withLetters(folder, letters);
    const { err } = await lastcall(["dlq", "redrive", url], { interactive: true });
    assertStringIncludes(err, "redriving  ━━━━━━━━────────────────  1 of 3");
  });

  it("dlq redrive releases on Ctrl+C the dead letters that it holds", async () => {
    using folder = new TempFolder();
    const url = await withLetters(folder, letters);
    const runtime = new FakeRuntime();
    const ended = await lastcall(["dlq", "redrive", url, "--reason", "nothing like that"], {
      interactive: true,
      // The first progress line sends the signal.
      onErr: () => runtime.send("SIGINT"),
      runtime,
    });
    assertEquals(ended.code, 130);
    assertEquals(runtime.listening, 0);
    assertEquals((await lastcall(["dlq", "redrive", url])).out, "sent 3 dead letters back\n");
  });

  it("dlq redrive reports on a signal how many it has redriven, with the exit code of the signal", async () => {
    for (const [signal, code] of [["SIGINT", 130], ["SIGTERM", 143]] as const) {
      using folder = new TempFolder();
      const url = await withLetters(folder, letters);
      const runtime = new FakeRuntime();
      const ended = await lastcall(["dlq", "redrive", url], {
        interactive: true,
        // The first progress line sends the signal; the first dead letter is still redriven.
        onErr: () => runtime.send(signal),
        runtime,
      });
      assertEquals(ended.code, code);
      assertStringIncludes(
        ended.err,
        `Stopped by ${signal}; sent back before that: 1 dead letter\n`,
      );
      assertEquals(ended.out, "");
      assertEquals(await ids(url), ["b", "c"]);
    }
  });

  it("dlq redrive reports how many it has redriven when the engine refuses one", async () => {
    using folder = new TempFolder();
    const url = await withLetters(folder, letters);
    const { code, out, err } = await lastcall(["dlq", "redrive", `${url}?maxSize=2`]);
    assertEquals({ code, out }, { code: 1, out: "" });
    assertMatch(err, /^error: .*is full.*; sent back before that: 2 dead letters\n$/);
    assertEquals(await ids(url), ["c"]);
    const again = await lastcall(["dlq", "redrive", `${url}?maxSize=3`, "--json"]);
    assertEquals([again.code, again.json], [0, [{ redriven: 1 }]]);
  });

  it("dlq redrive reports the same with --json", async () => {
    using folder = new TempFolder();
    const url = await withLetters(folder, letters);
    const { json, err } = await lastcall(["dlq", "redrive", `${url}?maxSize=1`, "--json"]);
    assertEquals(json, [{ redriven: 1 }]);
    assertMatch(JSON.parse(err).error.message, /; sent back before that: 1 dead letter$/);
  });

  it("dlq redrive refuses --limit 0", async () => {
    const { code, err } = await lastcall(["dlq", "redrive", "sqlite:./a.db", "--limit", "0"]);
    assertEquals(code, 2);
    assertStringIncludes(err, "Write a whole number of 1 or more");
  });
});

describe("dlq purge", () => {
  it("dlq purge asks, and deletes only the dead letters", async () => {
    using folder = new TempFolder();
    const url = await withLetters(folder, { a: "schema" });
    await lastcall(["send", url, "1"]);
    assertEquals((await lastcall(["dlq", "purge", url], { answer: "no" })).code, 1);
    assertEquals(await ids(url), ["a"]);
    const { out } = await lastcall(["dlq", "purge", url], { answer: "yes" });
    assertEquals(out, "deleted 1 dead letter\n");
    assertMatch(
      (await lastcall(["count", url])).out,
      /^1 message \(1 waiting, 0 delayed, 0 in flight, oldest .*\), 0 dead letters\n$/,
    );
  });
});

describe("dlq", () => {
  it("dlq without a subcommand shows its help and exits 2", async () => {
    const { code, err } = await lastcall(["dlq"]);
    assertEquals(code, 2);
    assertStringIncludes(err, "Usage: lastcall dlq");
  });

  for (const command of ["list", "redrive", "purge"]) {
    it(`${command} does not create the file of the mailbox`, async () => {
      using folder = new TempFolder();
      const { code, err } = await lastcall(["dlq", command, `sqlite:${folder.file()}`]);
      assertEquals(code, 1);
      assertStringIncludes(err, "No file");
    });
  }
});
