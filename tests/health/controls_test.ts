import { describe, it } from "node:test";
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { deferred } from "../../src/_promises.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { Fixture } from "./_fixture.ts";

const token = "0123456789abcdef";
const headers = { authorization: `Bearer ${token}` };
const authorized = { method: "POST", headers };

const CONTROLS = [
  ["POST", "/pause"],
  ["POST", "/resume"],
  ["POST", "/redrive?mailbox=jobs"],
  ["GET", "/controls"],
  ["GET", "/dead-letters?mailbox=jobs"],
  ["POST", "/dead-letters/delete?mailbox=jobs"],
  ["GET", "/messages?mailbox=jobs"],
  ["GET", "/messages/tea?mailbox=jobs"],
  ["POST", "/messages/cancel?mailbox=jobs"],
  ["POST", "/messages/deliver-now?mailbox=jobs"],
] as const;

/** Returns a fixture whose handler throws, so that its messages are dead-lettered. */
async function withDeadLetters(...bodies: readonly string[]): Promise<Fixture> {
  const fixture = new Fixture();
  fixture.fail(new Error("no room at postgres://ada:secret@db"));
  await fixture.start();
  for (const body of bodies) await fixture.mailbox.send(body, { id: body });
  await fixture.clock.advance(10);
  return fixture;
}

describe("the controls of a group", () => {
  it("the controls do not exist without a token", async () => {
    const app = new Fixture().app();
    for (const [method, path] of CONTROLS) {
      assertEquals((await app.request(path, { method, headers })).status, 404, path);
    }
  });

  it("the controls need the token in the header and the right method", async () => {
    const fixture = await withDeadLetters("tea");
    const app = fixture.app({ token });
    for (const [method, path] of CONTROLS) {
      const wrong = { authorization: "Bearer 0123456789abcdeX" };
      assertEquals((await app.request(path, { method })).status, 401, path);
      assertEquals((await app.request(path, { method, headers: wrong })).status, 401, path);
      const other = method === "GET" ? "POST" : "GET";
      assertEquals((await app.request(path, { method: other, headers })).status, 404, path);
    }
    assert(!fixture.group.health().paused);
    assertEquals(await fixture.mailbox.deadLetters.approximateCount(), 1);
    await fixture.stop();
  });

  it("GET /controls answers 200 with the right token", async () => {
    const response = await new Fixture().app({ token }).request("/controls", { headers });
    assertEquals([response.status, await response.json()], [200, { status: "allowed" }]);
  });

  it("POST /pause turns readiness off until POST /resume", async () => {
    const fixture = new Fixture();
    await fixture.start();
    const app = fixture.app({ token });
    const ready = async () => (await app.request("/health/ready")).status;
    assertEquals((await app.request("/pause", authorized)).status, 202);
    assertEquals(await ready(), 503);
    const verbose = await app.request("/health/ready?verbose");
    assertMatch(await verbose.text(), /FAILED phase: paused/);
    assertEquals((await app.request("/resume", authorized)).status, 200);
    assertEquals(await ready(), 200);
    await fixture.stop();
  });

  it("GET /dead-letters returns dead letters with their errors and bodies", async () => {
    const fixture = await withDeadLetters("tea");
    const app = fixture.app({ token });
    const response = await app.request("/dead-letters?mailbox=jobs", { headers });
    const { mailbox, letters: [letter, ...others] } = await response.json();
    assertEquals([response.status, mailbox, others], [200, "jobs", []]);
    assertEquals([letter.id, letter.deliveryCount], ["tea", 1]);
    assertMatch(letter.error, /no room at postgres/);
    assertEquals([letter.body, letter.reason], ["tea", "max_deliveries"]);
    await fixture.stop();
  });

  it("POST /redrive redrives each dead letter once", async () => {
    const fixture = await withDeadLetters("tea", "cake");
    const app = fixture.app({ token });
    const response = await app.request("/redrive?mailbox=jobs", authorized);
    assertEquals([response.status, await response.json()], [200, { mailbox: "jobs", redriven: 2 }]);
    await fixture.clock.advance(10);
    assertEquals(fixture.handled, ["tea", "cake", "tea", "cake"]);
    assertEquals(await fixture.mailbox.deadLetters.approximateCount(), 2, "they failed again");
    await fixture.stop();
  });

  it("POST /redrive ends although redriven messages are dead-lettered again immediately", async () => {
    const { clock, log } = new Fixture();
    const returning = new InMemoryMailbox<string>("returning", { clock });
    const { deadLetters } = returning;
    let sent = 0;
    const deadLetterAgain = async (body: string, { id = "" } = {}) => {
      if (++sent > 20) throw new Error("redriven without an end");
      const letter = {
        id,
        body,
        headers: {},
        reason: "again",
        deliveryCount: 1,
        enqueuedAt: 0,
        deadAt: 0,
      };
      return await deadLetters.send(letter);
    };
    Object.defineProperty(returning, "send", { value: deadLetterAgain });
    for (const id of ["a", "b", "c"]) await deadLetterAgain(id, { id });
    const app = new Fixture().app({ token, mailboxes: [returning], clock, log });
    const response = await app.request("/redrive?mailbox=returning", authorized);
    assertEquals((await response.json()).redriven, 3);
    assertEquals(await deadLetters.approximateCount(), 3);
  });

  it("POST /redrive names the mailbox that is missing or has no dead letters", async () => {
    const app = new Fixture().app({
      token,
      mailboxes: [{ name: "plain", approximateCount: () => Promise.resolve(3) }],
    });
    const ask = async (path: string) => {
      const response = await app.request(path, authorized);
      return [response.status, (await response.json()).error];
    };
    assertEquals(await ask("/redrive"), [400, "name a mailbox: ?mailbox=…"]);
    assertEquals(await ask("/redrive?mailbox=x"), [404, 'there is no mailbox "x"']);
    const plain = await ask("/redrive?mailbox=plain");
    assertEquals(plain, [404, 'mailbox "plain" has no dead letters']);
  });

  it("the controls answer 503 in bounded time while the engine is unreachable", async () => {
    const fixture = await withDeadLetters("tea");
    const app = fixture.app({ token });
    fixture.mailbox.loseConnection();
    assertEquals((await app.request("/redrive?mailbox=jobs", authorized)).status, 503);
    assertEquals(
      await fixture.mailbox.deadLetters.approximateCount(),
      1,
      "the dead letter is not lost",
    );
    fixture.mailbox.restoreConnection();
    await fixture.stop();

    const { clock } = fixture;
    const never = () => new Promise<never>(() => {});
    const frozen = new InMemoryMailbox<string>("frozen", { clock });
    const held = deferred();
    Object.defineProperty(frozen, "deadLetters", {
      value: { peek: () => (held.resolve(), never()) },
    });
    const asked = fixture.app({ token, mailboxes: [frozen] })
      .request("/dead-letters?mailbox=frozen", { headers });
    await held.promise;
    await clock.advance(1_000);
    assertEquals((await asked).status, 503);
  });

  it("healthApp refuses a short token and does not repeat it in the error", () => {
    const error = assertThrows(() => new Fixture().app({ token: "secret" }), TypeError);
    assert(!error.message.includes("secret"));
  });

  it("healthApp takes every token that a bearer header can carry, and refuses others", async () => {
    for (const token of ["0123456789abcdef", "a-b.c_d~e+f/0123456789=="]) {
      const headers = { authorization: `Bearer ${token}` };
      const answer = await new Fixture().app({ token }).request("/controls", { headers });
      assertEquals(answer.status, 200, token);
    }
    assertThrows(() => new Fixture().app({ token: "01234567=89abcdef" }), TypeError, "at the end");
  });
});
