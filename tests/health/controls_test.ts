import { describe, it } from "node:test";
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { deferred } from "../../src/_promises.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { Clinic } from "./_clinic.ts";

const token = "0123456789abcdef";
const headers = { authorization: `Bearer ${token}` };
const authorized = { method: "POST", headers };

const OPENED = [
  ["POST", "/drain"],
  ["POST", "/resume"],
  ["POST", "/redrive?mailbox=jobs"],
  ["GET", "/controls"],
  ["GET", "/dead-letters?mailbox=jobs"],
] as const;

/** A clinic whose handler fails, so that what is sent ends with the dead letters. */
async function withLetters(...bodies: readonly string[]): Promise<Clinic> {
  const clinic = new Clinic();
  clinic.fail(new Error("no room at postgres://ada:secret@db"));
  await clinic.start();
  for (const body of bodies) await clinic.mailbox.send(body, { id: body });
  await clinic.clock.advance(10);
  return clinic;
}

describe("the controls of a group", () => {
  it("do not exist without a token", async () => {
    const app = new Clinic().app();
    for (const [method, path] of OPENED) {
      assertEquals((await app.request(path, { method, headers })).status, 404, path);
    }
  });

  it("need the token, in the header and by the right method", async () => {
    const clinic = await withLetters("tea");
    const app = clinic.app({ token });
    for (const [method, path] of OPENED) {
      const wrong = { authorization: "Bearer 0123456789abcdeX" };
      assertEquals((await app.request(path, { method })).status, 401, path);
      assertEquals((await app.request(path, { method, headers: wrong })).status, 401, path);
      const other = method === "GET" ? "POST" : "GET";
      assertEquals((await app.request(path, { method: other, headers })).status, 404, path);
    }
    assert(!clinic.group.health().paused);
    assertEquals(await clinic.mailbox.deadLetters.approximateCount(), 1);
    await clinic.stop();
  });

  it("tell that a token is right", async () => {
    const response = await new Clinic().app({ token }).request("/controls", { headers });
    assertEquals([response.status, await response.json()], [200, { status: "allowed" }]);
  });

  it("drain and resume: readiness is red until work is taken again", async () => {
    const clinic = new Clinic();
    await clinic.start();
    const app = clinic.app({ token });
    const ready = async () => (await app.request("/health/ready")).status;
    assertEquals((await app.request("/drain", authorized)).status, 202);
    assertEquals(await ready(), 503);
    const verbose = await app.request("/health/ready?verbose");
    assertMatch(await verbose.text(), /FAILED phase: drained/);
    assertEquals((await app.request("/resume", authorized)).status, 200);
    assertEquals(await ready(), 200);
    await clinic.stop();
  });

  it("show what the errors of dead letters say", async () => {
    const clinic = await withLetters("tea");
    const app = clinic.app({ token });
    const response = await app.request("/dead-letters?mailbox=jobs", { headers });
    const { mailbox, letters: [letter, ...others] } = await response.json();
    assertEquals([response.status, mailbox, others], [200, "jobs", []]);
    assertEquals([letter.id, letter.deliveryCount], ["tea", 1]);
    assertMatch(letter.error, /no room at postgres/);
    assertEquals("body" in letter, false);
    await clinic.stop();
  });

  it("send dead letters back, those that are there now and once", async () => {
    const clinic = await withLetters("tea", "cake");
    const app = clinic.app({ token });
    const response = await app.request("/redrive?mailbox=jobs", authorized);
    assertEquals([response.status, await response.json()], [200, { mailbox: "jobs", redriven: 2 }]);
    await clinic.clock.advance(10);
    assertEquals(clinic.handled, ["tea", "cake", "tea", "cake"]);
    assertEquals(await clinic.mailbox.deadLetters.approximateCount(), 2, "they have failed again");
    await clinic.stop();
  });

  it("do not send round for ever what fails again at once", async () => {
    const { clock, log } = new Clinic();
    const boomerang = new InMemoryMailbox<string>("boomerang", { clock });
    const { deadLetters } = boomerang;
    let sent = 0;
    const bury = async (body: string, { id = "" } = {}) => {
      if (++sent > 20) throw new Error("round and round");
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
    Object.defineProperty(boomerang, "send", { value: bury });
    for (const id of ["a", "b", "c"]) await bury(id, { id });
    const app = new Clinic().app({ token, mailboxes: [boomerang], clock, log });
    const response = await app.request("/redrive?mailbox=boomerang", authorized);
    assertEquals((await response.json()).redriven, 3);
    assertEquals(await deadLetters.approximateCount(), 3);
  });

  it("say which mailbox they miss", async () => {
    const app = new Clinic().app({
      token,
      mailboxes: [{ name: "plain", approximateCount: () => Promise.resolve(3) }],
    });
    const ask = async (path: string) => {
      const response = await app.request(path, authorized);
      return [response.status, (await response.json()).error];
    };
    assertEquals(await ask("/redrive"), [400, "say which: ?mailbox=…"]);
    assertEquals(await ask("/redrive?mailbox=x"), [404, 'there is no mailbox "x" here']);
    const plain = await ask("/redrive?mailbox=plain");
    assertEquals(plain, [404, 'mailbox "plain" keeps no dead letters']);
  });

  it("answer 503 while the engine is away, in bounded time", async () => {
    const clinic = await withLetters("tea");
    const app = clinic.app({ token });
    clinic.mailbox.loseConnection();
    assertEquals((await app.request("/redrive?mailbox=jobs", authorized)).status, 503);
    assertEquals(await clinic.mailbox.deadLetters.approximateCount(), 1, "the letter is not lost");
    clinic.mailbox.restoreConnection();
    await clinic.stop();

    const { clock } = clinic;
    const never = () => new Promise<never>(() => {});
    const frozen = new InMemoryMailbox<string>("frozen", { clock });
    const held = deferred();
    Object.defineProperty(frozen, "deadLetters", {
      value: { peek: () => (held.resolve(), never()) },
    });
    const asked = clinic.app({ token, mailboxes: [frozen] })
      .request("/dead-letters?mailbox=frozen", { headers });
    await held.promise;
    await clock.advance(1_000);
    assertEquals((await asked).status, 503);
  });

  it("refuse a token that can be guessed, without repeating it", () => {
    const error = assertThrows(() => new Clinic().app({ token: "secret" }), TypeError);
    assert(!error.message.includes("secret"));
  });
});
