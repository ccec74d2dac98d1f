import { describe, it } from "node:test";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { LoopGroup } from "../../src/group/loop_group.ts";
import { healthApp, type WatchedMailbox } from "../../src/health/mod.ts";
import { silentLog } from "../../src/log.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { FULL_CAPABILITIES, type MailboxOptions } from "../../src/mailbox/mailbox.ts";
import { deferred } from "../../src/_promises.ts";
import { FakeRuntime, VirtualClock } from "../../src/testing/mod.ts";

const token = "0123456789abcdef";
const headers = { authorization: `Bearer ${token}` };

// deno-lint-ignore no-explicit-any -- answers of many shapes
type Json = any;
type Answer = readonly [status: number, body: Json];

/** A mailbox on a virtual clock, and requests to a health app that knows it. */
class Desk {
  readonly clock: VirtualClock = new VirtualClock();
  readonly mailbox: InMemoryMailbox<unknown>;
  readonly #app: ReturnType<typeof healthApp>;

  constructor(options: MailboxOptions = {}, shown?: (mailbox: Desk["mailbox"]) => WatchedMailbox) {
    const { clock } = this;
    const mailbox = this.mailbox = new InMemoryMailbox("orders", { clock, ...options });
    const group = new LoopGroup([], { clock, runtime: new FakeRuntime(), log: silentLog });
    const mailboxes = [shown?.(mailbox) ?? mailbox];
    this.#app = healthApp(group, { clock, token, log: silentLog, mailboxes });
  }

  async get(path: string, query = ""): Promise<Answer> {
    const response = await this.#app.request(`${path}?mailbox=orders${query}`, { headers });
    return [response.status, await response.json()];
  }

  async post(path: string, body?: unknown): Promise<Answer> {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const init = { method: "POST", headers, ...(body === undefined ? {} : { body: text }) };
    const response = await this.#app.request(`${path}?mailbox=orders`, init);
    return [response.status, await response.json()];
  }

  /** The ids of a page, and the `skip` of the next one. */
  async page(path: string, query = ""): Promise<readonly [ids: readonly string[], next: Json]> {
    const [, { messages, letters = messages, next }] = await this.get(path, query);
    return [letters.map(({ id }: Json) => id), next];
  }

  async sendMany(count: number): Promise<void> {
    const bodies = Array.from({ length: count }, (_, i) => ({ dish: `dish ${i}` }));
    await this.mailbox.sendMany(bodies, (_, i) => ({ id: `m${i}` }));
  }

  /** Sends messages, and dead-letters all messages of the mailbox. */
  async deadLetter(...ids: readonly string[]): Promise<void> {
    for (const id of ids) await this.mailbox.send({ dish: id }, { id, headers: { table: "4" } });
    for (const message of await this.mailbox.receive({ maxMessages: 1_000 })) {
      const reason = message.id.startsWith("late") ? "expired" : "max_deliveries";
      await message.deadLetter({ reason, error: `no ${message.id} left` });
    }
  }
}

describe("the messages of a mailbox over HTTP", () => {
  it("GET /messages has the body, headers, state and progress of each message", async () => {
    const desk = new Desk();
    await desk.mailbox.send({ dish: "tea" }, {
      ...{ id: "tea", headers: { table: "4" }, key: "guest", priority: 3, expiresInMs: 5_000 },
      checkpoint: { brewed: true },
    });
    await desk.mailbox.send("cake", { id: "cake", delayMs: 60_000 });
    const enqueuedAt = desk.clock.now();
    const sent = { deliveryCount: 0, enqueuedAt };
    assertEquals(await desk.get("/messages"), [200, {
      mailbox: "orders",
      messages: [
        {
          ...{ ...sent, id: "tea", state: "waiting", key: "guest", priority: 3 },
          ...{ headers: { table: "4" }, expiresAt: enqueuedAt + 5_000 },
          ...{ checkpoint: { brewed: true }, body: { dish: "tea" } },
        },
        { ...sent, id: "cake", state: "delayed", headers: {}, body: "cake" },
      ],
    }]);
  });

  it("GET /messages returns pages, and the last one has no next", async () => {
    const desk = new Desk();
    await desk.sendMany(120);
    const pages = ["", "&skip=50", "&skip=100", "&skip=120", "&skip=20&limit=100"];
    const found = await Promise.all(pages.map((query) => desk.page("/messages", query)));
    const sizes = found.map(([ids, next]) => [ids.length, ids[0], next]);
    assertEquals(sizes, [
      [50, "m0", 50],
      [50, "m50", 100],
      [20, "m100", undefined],
      [0, undefined, undefined],
      [100, "m20", undefined],
    ]);
  });

  it("GET /messages finds text in ids, keys, headers and bodies, and selects a state", async () => {
    const desk = new Desk();
    await desk.mailbox.send("x", { id: "a-Teapot" });
    await desk.mailbox.send("x", { id: "b", key: "teapot" });
    await desk.mailbox.send("x", { id: "c", headers: { dish: "TEAPOT" } });
    await desk.mailbox.send({ order: [{ dish: "a teapot" }] }, { id: "d", delayMs: 1_000 });
    await desk.mailbox.send("tea", { id: "e" });
    const find = async (query: string) => (await desk.page("/messages", query))[0];
    assertEquals(await find("&find=teapot"), ["a-Teapot", "b", "c", "d"]);
    assertEquals(await find("&find=teapot&state=delayed"), ["d"]);
    assertEquals((await desk.mailbox.receive())[0]?.id, "a-Teapot");
    assertEquals(await find("&state=inFlight"), ["a-Teapot"]);
    assertEquals(await find("&state=waiting"), ["b", "c", "e"]);
    assertEquals(await find("&find=" + encodeURIComponent('"dish":"a teapot"')), ["d"]);
  });

  it("GET /messages searches 10,000 messages per request, and next continues the search", async () => {
    const desk = new Desk();
    await desk.sendMany(12_000);
    assertEquals(await desk.page("/messages", "&find=dish+11999"), [[], 10_000]);
    const rest = await desk.page("/messages", "&find=dish+11999&skip=10000");
    assertEquals(rest, [["m11999"], undefined]);
    const [found, next] = await desk.page("/messages", "&find=dish&limit=3&skip=5");
    assertEquals([found, next], [["m5", "m6", "m7"], 8]);
  });

  it("GET /messages/<id> returns one message, also when its id has slashes or spaces", async () => {
    const desk = new Desk();
    for (const id of ["tea", "a/b c?ü", "cancel"]) {
      await desk.mailbox.send({ of: id }, { id });
      const [status, message] = await desk.get(`/messages/${encodeURIComponent(id)}`);
      assertEquals([status, message.id, message.body], [200, id, { of: id }]);
    }
    const missing = { error: 'mailbox "orders" has no message "cake"' };
    assertEquals(await desk.get("/messages/cake"), [404, missing]);
  });

  it("POST /messages/cancel removes messages in any state and tells which were missing", async () => {
    const desk = new Desk();
    await desk.mailbox.send(1, { id: "running" });
    const [running] = await desk.mailbox.receive();
    const cancelled: string[] = [];
    desk.mailbox.onCancel((id) => cancelled.push(id));
    await desk.mailbox.send(2, { id: "waiting" });
    await desk.mailbox.send(3, { id: "delayed", delayMs: 60_000 });
    await desk.mailbox.send(4, { id: "kept" });
    const ids = ["running", "waiting", "delayed", "gone", "waiting"];
    const [status, { done, missing }] = await desk.post("/messages/cancel", { ids });
    assertEquals([status, done, missing], [200, ["running", "waiting", "delayed"], ["gone"]]);
    assertEquals([running?.id, cancelled], ["running", ["running"]], "its handler is told");
    assertEquals((await desk.page("/messages"))[0], ["kept"]);
  });

  it("POST /messages/deliver-now makes delayed messages visible", async () => {
    const desk = new Desk();
    await desk.mailbox.send(1, { id: "delayed", delayMs: 60_000 });
    await desk.mailbox.send(2, { id: "waiting" });
    const answer = await desk.post("/messages/deliver-now", {
      ids: ["delayed", "waiting", "gone"],
    });
    assertEquals(answer, [200, { done: ["delayed"], missing: ["waiting", "gone"] }]);
    const received = await desk.mailbox.receive({ maxMessages: 10 });
    assertEquals(received.map(({ id }) => id).sort(), ["delayed", "waiting"]);
  });

  it("a long body is cut, and a body that is not JSON is shown as far as possible", async () => {
    const desk = new Desk();
    await desk.mailbox.send({ text: "é".repeat(20_000) }, { id: "long" });
    const [, { messages: [long] }] = await desk.get("/messages");
    assertEquals([long.bodyText.length, long.bodyLength, "body" in long], [10_000, 20_011, false]);
    assert(long.bodyText.startsWith('{"text":"éé'));

    const codec = { encode: String, decode: (text: unknown) => ({ count: BigInt(String(text)) }) };
    const odd = new Desk({ codec });
    await odd.mailbox.send(7, { id: "odd" });
    assertEquals((await odd.get("/messages"))[1].messages[0].body, { count: "7" });
  });
});

describe("the dead letters of a mailbox over HTTP", () => {
  it("GET /dead-letters has errors and bodies, pages, and filters by reason and text", async () => {
    const desk = new Desk();
    await desk.deadLetter("tea", "late-cake", "late-tea", "soup");
    const [status, { letters, next }] = await desk.get("/dead-letters", "&limit=1");
    const at = desk.clock.now();
    assertEquals([status, next], [200, 1]);
    assertEquals(letters, [{
      ...{ id: "tea", reason: "max_deliveries", error: "no tea left", deliveryCount: 1 },
      ...{ enqueuedAt: at, deadAt: at, headers: { table: "4" }, body: { dish: "tea" } },
    }]);
    assertEquals(await desk.page("/dead-letters", "&skip=3"), [["soup"], undefined]);
    const expired = await desk.page("/dead-letters", "&reason=expired");
    assertEquals(expired, [["late-cake", "late-tea"], undefined]);
    const found = await desk.page("/dead-letters", "&reason=expired&find=TEA");
    assertEquals(found, [["late-tea"], undefined]);
  });

  it("POST /dead-letters/delete deletes some dead letters", async () => {
    const desk = new Desk();
    await desk.deadLetter("tea", "cake", "soup");
    const answer = await desk.post("/dead-letters/delete", { ids: ["tea", "soup", "gone"] });
    assertEquals(answer, [200, { done: ["tea", "soup"], missing: ["gone"] }]);
    assertEquals((await desk.page("/dead-letters"))[0], ["cake"]);
    assertEquals(await desk.mailbox.approximateCount(), 0, "they are not sent back");
  });

  it("POST /redrive with ids sends only these back", async () => {
    const desk = new Desk();
    await desk.deadLetter("tea", "cake", "soup");
    const answer = await desk.post("/redrive", { ids: ["soup", "gone"] });
    assertEquals(answer, [200, { mailbox: "orders", redriven: 1, missing: ["gone"] }]);
    assertEquals((await desk.page("/messages"))[0], ["soup"]);
    assertEquals((await desk.page("/dead-letters"))[0], ["tea", "cake"]);
    assertEquals(await desk.post("/redrive"), [200, { mailbox: "orders", redriven: 2 }]);
  });

  it("an unreadable dead letter is shown as its text", async () => {
    const desk = new Desk();
    await desk.mailbox.deadLetters.send("not a letter" as never, { id: "odd" });
    const [, { letters: [letter] }] = await desk.get("/dead-letters");
    assertEquals([letter.id, letter.reason, letter.raw], ["odd", "unreadable", "not a letter"]);
  });
});

describe("requests about messages that cannot be answered", () => {
  it("bad input is refused with 400, and nothing changes", async () => {
    const desk = new Desk();
    await desk.deadLetter("dead");
    await desk.mailbox.send(1, { id: "tea" });
    const gets = [
      ["/messages", "&limit=0", /limit must be a whole number from 1 to 100, not "0"/],
      ["/messages", "&limit=101", /limit/],
      ["/dead-letters", "&skip=-1", /skip/],
      ["/messages", "&skip=1e3", /skip/],
      ["/messages", "&state=dead", /state must be one of waiting, delayed, inFlight, not "dead"/],
    ] as const;
    for (const [path, query, expected] of gets) {
      const [status, { error }] = await desk.get(path, query);
      assertEquals(status, 400, query);
      assertMatch(error, expected);
    }
    const hundredAndOne = Array.from({ length: 101 }, (_, i) => `m${i}`);
    const bodies = ["{", "null", "[]", {}, { ids: [] }, { ids: "tea" }, { ids: ["tea", 5] }].concat(
      { ids: ["tea", ""] } as never,
      { ids: ["tea", "\0"] } as never,
      { ids: ["tea", ...hundredAndOne] } as never,
    );
    const paths = ["/messages/cancel", "/messages/deliver-now", "/dead-letters/delete", "/redrive"];
    for (const path of paths) {
      for (const body of bodies) {
        const [status, { error }] = await desk.post(path, body);
        assertEquals(status, 400, `${path} ${JSON.stringify(body)}`);
        assertMatch(error, /"ids"/);
      }
      if (path !== "/redrive") assertEquals((await desk.post(path))[0], 400, path);
    }
    assertEquals((await desk.page("/messages"))[0], ["tea"]);
    assertEquals((await desk.page("/dead-letters"))[0], ["dead"]);
  });

  it("an engine that cannot list or find messages is answered with 409", async () => {
    const plain = new Desk(
      {},
      ({ name }) => ({ name, approximateCount: () => Promise.resolve(1) }),
    );
    const cannot = 'the engine of mailbox "orders" cannot';
    const listing = await plain.get("/messages");
    assertEquals(listing, [409, { error: `${cannot} list its messages` }]);
    const unknowing = new Desk();
    for (const mailbox of [unknowing.mailbox, unknowing.mailbox.deadLetters]) {
      const capabilities = { ...FULL_CAPABILITIES, lookup: false };
      Object.defineProperty(mailbox, "capabilities", { value: capabilities });
    }
    const expected = [409, { error: `${cannot} find messages by id` }] as const;
    assertEquals(await unknowing.get("/messages/tea"), expected);
    for (const path of ["/messages/cancel", "/messages/deliver-now", "/dead-letters/delete"]) {
      assertEquals(await unknowing.post(path, { ids: ["tea"] }), expected, path);
    }
  });

  it("an engine that does not answer is answered with 503 after checkTimeoutMs", async () => {
    const asked = deferred();
    const frozen = () => (asked.resolve(), new Promise<never>(() => {}));
    const calls = [
      ["peek", (desk: Desk) => desk.get("/messages"), {}],
      ["get", (desk: Desk) => desk.get("/messages/tea"), {}],
      [
        "cancel",
        (desk: Desk) => desk.post("/messages/cancel", { ids: ["tea"] }),
        { done: [], missing: [] },
      ],
    ] as const;
    for (const [name, call, changed] of calls) {
      const desk = new Desk();
      Object.defineProperty(desk.mailbox, name, { value: frozen });
      const answer = call(desk);
      await asked.promise;
      await desk.clock.advance(1_000);
      const error = 'mailbox "orders" did not answer within 1000 ms; try again';
      assertEquals(await answer, [503, { error, ...changed }], name);
    }
  });

  it("POST /redrive may take longer than checkTimeoutMs while it makes progress", async () => {
    const desk = new Desk();
    await desk.deadLetter("a", "b", "c");
    const send = desk.mailbox.send.bind(desk.mailbox);
    let sent = 0;
    const slow = async (...message: Parameters<typeof send>) => {
      await desk.clock.sleep(++sent < 3 ? 900 : 10_000);
      return await send(...message);
    };
    Object.defineProperty(desk.mailbox, "send", { value: slow });
    const first = desk.post("/redrive", { ids: ["a", "b"] });
    await desk.clock.advance(1_800);
    assertEquals(await first, [200, { mailbox: "orders", redriven: 2, missing: [] }]);
    const second = desk.post("/redrive", { ids: ["c"] });
    await desk.clock.advance(2_000);
    const [status, { redriven }] = await second;
    assertEquals([status, redriven], [503, 0]);
  });
});
