import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { ended, everywhere, type Host, start } from "./_example.ts";

/** Options of messages, requests, batches, codecs. */
export function messages(it: Host): void {
  it("18: the messages of a key are handled in order, and others pass", everywhere, async () => {
    await using bank = start("18_messages");
    const said = await ended(bank);
    const lines = said.split("\n");
    for (const account of ["ada", "grace", "edsger"]) {
      const steps = lines.filter((line) => line.startsWith(`${account}: transfer`))
        .map((line) => line.match(/transfer (\d)/)?.[1]);
      assertEquals(steps, ["1", "2", "3"], said);
    }
    const [first] = lines.filter((line) => line.includes(": transfer "));
    assertEquals(first, "police: transfer 1, attempt 1", said);
    assertStringIncludes(said, "ada: transfer 2, attempt 2");
    assertStringIncludes(said, "transfer-7: stored true, then false");
    assertStringIncludes(said, "after it was handled: stored false");
    assertStringIncludes(said, "dead letter: donald, expired");
    assert(!said.includes("barbara: transfer 1, attempt 2"), said);
  });

  it("21: a failed batch is retried, and one message fails alone", everywhere, async () => {
    await using writer = start("21_batch");
    const said = await ended(writer);
    assertMatch(said, /250 rows by \d+ calls, [1-9]\d* retries/);
    assertStringIncludes(said, "dead letter: TypeError: sensor 250 is broken");
  });

  it("22: each request gets its own reply, or times out", everywhere, async () => {
    await using station = start("22_request");
    const said = await ended(station);
    for (const line of ["Oslo: -3 degrees", "Rome: 14 degrees", "Utopia: unknown city"]) {
      assertStringIncludes(said, line);
    }
    assertStringIncludes(said, "Atlantis: no reply in 100 ms");
  });

  it("23: bodies are encrypted, and readable after a change of the key", everywhere, async () => {
    await using letters = start("23_encrypted");
    const said = await ended(letters);
    assertMatch(said, /stored as 2026\.[\w-]+…/);
    for (const who of ["ada", "grace"]) assertStringIncludes(said, `read a letter to ${who}`);
    assertStringIncludes(said, "a text of another mailbox was refused");
  });

  it(
    "24: large bodies are stored elsewhere, and deleted after the acknowledgement or by age",
    everywhere,
    async () => {
      await using photos = start("24_claim_check");
      const said = await ended(photos);
      assertStringIncludes(said, "large: 100000 pixels");
      const stored = [...said.matchAll(/: (\d) stored/g)].map(([, count]) => Number(count));
      assertEquals(stored, [1, 2, 1, 1, 0], said);
    },
  );

  it("25: a limit slows down all workers, and a 429 pauses the queue", everywhere, async () => {
    await using workers = start("25_rate_limit");
    const said = await ended(workers);
    const [, tookMs, refused, calls] =
      /50 sent in (\d+) ms, (\d+) of (\d+) calls refused/.exec(said)?.map(Number) ?? [];
    // The other worker may have received a message before the pause.
    assert(refused === 1 || refused === 2, said);
    assertEquals(calls, 50 + refused);
    // Ten deliveries in any 200 ms: the fifty-first is 1 000 ms after the first.
    assert(tookMs! >= 990, said);
    assertEquals(said.match(/the queue pauses for 300 ms/g)?.length, refused);
  });

  it("26: replicas send each slot once, also one that all of them missed", everywhere, async () => {
    await using site = start("26_cron");
    const said = await ended(site);
    assertStringIncludes(said, "4 slots, 4 different ones");
    const times = [...said.matchAll(/report until (\S+)/g)].map(([, at]) => Date.parse(at!));
    assertEquals(times, times.map((_, i) => times[0]! + i * 1_000), said);
  });
}
