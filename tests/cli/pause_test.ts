import { describe, it } from "node:test";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { FakeRuntime } from "../../src/testing/mod.ts";
import { freePort } from "../engines/_servers.ts";
import { lastcall } from "./_io.ts";
import { startWorker, TOKEN } from "./_worker.ts";

const env = { token: TOKEN };
const withToken = ["--token", TOKEN];

describe("lastcall pause", () => {
  it("lastcall pause waits until nothing is in flight, shows what is left, and exits 0", async () => {
    await using worker = await startWorker(["tea", "soup"], env);
    const { code, out, err } = await lastcall(["pause", worker.url, ...withToken], {
      // Each progress line finishes one handler.
      onErr: () => worker.finish(),
    });
    assertEquals(code, 0);
    assertMatch(out, /is paused: nothing in flight after \d+ m?s\n$/);
    assertMatch(
      err,
      /^pausing, 2 in flight: orders 2, oldest .*\npausing, 1 in flight: /,
    );
    assertEquals(worker.group.health().paused, true);
  });

  it("lastcall pause draws a bar on a terminal, and removes it", async () => {
    await using worker = await startWorker(["tea", "soup"], env);
    const { code, err } = await lastcall(["pause", worker.url, ...withToken], {
      interactive: true,
      onErr: () => worker.finish(),
    });
    assertEquals(code, 0);
    assertMatch(err, /pausing +─{24} +0 of 2, 2 left, \d/);
    assertMatch(err, /pausing +━{12}─{12} +1 of 2, 1 left, \d/);
    assertEquals(err.endsWith("\r\x1b[J"), true);
  });

  it("lastcall pause writes one line with --json", async () => {
    await using worker = await startWorker([], env);
    const { code, json, err } = await lastcall(["pause", worker.url, ...withToken, "--json"]);
    const [{ state, inFlight, waitedMs }] = json;
    assertEquals({ code, err, state, inFlight }, {
      code: 0,
      err: "",
      state: "paused",
      inFlight: 0,
    });
    assertEquals(typeof waitedMs, "number");
  });

  it("lastcall pause does not wait with --no-wait", async () => {
    await using worker = await startWorker(["tea"], env);
    const { code, out } = await lastcall(["pause", worker.url, ...withToken, "--no-wait"]);
    assertEquals({ code, out }, { code: 0, out: `${worker.url} is pausing\n` });
  });

  it("lastcall pause exits 1 after --timeout, and says what is left", async () => {
    await using worker = await startWorker(["tea"], env);
    const { code, out, err } = await lastcall(
      ["pause", worker.url, ...withToken, "--timeout", "20ms"],
    );
    assertEquals({ code, out }, { code: 1, out: "" });
    assertStringIncludes(err, "error: Not paused within 20 ms: ");
    assertStringIncludes(err, "is still pausing with 1 in flight");
  });

  it("lastcall pause stops waiting on Ctrl+C, and says that the group is still pausing", async () => {
    await using worker = await startWorker(["tea"], env);
    const runtime = new FakeRuntime();
    const { code, err } = await lastcall(["pause", worker.url, ...withToken], {
      runtime,
      onErr: () => runtime.send("SIGINT"),
    });
    assertEquals(code, 130);
    assertStringIncludes(err, "is still pausing with 1 in flight");
    assertEquals(runtime.listening, 0);
  });

  it("lastcall pause fails when the group is resumed during the pause", async () => {
    await using worker = await startWorker(["tea"], env);
    const { code, err } = await lastcall(["pause", worker.url, ...withToken], {
      onErr: () => worker.group.resume(),
    });
    assertEquals(code, 1);
    assertStringIncludes(err, "was resumed during the pause");
  });

  it("lastcall pause fails when the group stops answering", async () => {
    await using worker = await startWorker(["tea"], env);
    let stopped: Promise<unknown> | undefined;
    const { code, err } = await lastcall(["pause", worker.url, ...withToken], {
      onErr: () => stopped ??= worker.group.shutdown({ timeoutMs: 50 }),
    });
    await stopped;
    assertEquals(code, 1);
    assertStringIncludes(err, "does not answer any more; the last answer had 1 in flight");
  });

  it("lastcall pause refuses a wrong, a missing and an invalid token, and prints none of them", async () => {
    await using worker = await startWorker([], env);
    const wrong = await lastcall(["pause", worker.url, "--token", "another-token-of-mine"]);
    assertEquals(wrong.code, 1);
    assertStringIncludes(wrong.err, "refused the token");
    const none = await lastcall(["pause", worker.url]);
    assertEquals(none.code, 2);
    assertStringIncludes(none.err, "LASTCALL_TOKEN");
    const odd = await lastcall(["pause", worker.url, "--token", "öäü\n"]);
    assertEquals(odd.code, 2);
    assertEquals([wrong, none, odd].some(({ err }) => /of-mine|öäü/.test(err)), false);
    assertEquals(worker.group.health().paused, false);
  });

  it("lastcall pause says what to do when the group was started without a token", async () => {
    await using worker = await startWorker();
    const { code, err } = await lastcall(["pause", worker.url, ...withToken]);
    assertEquals(code, 1);
    assertStringIncludes(err, "cannot pause: start the group with a token");
  });

  it("lastcall pause exits 1 when there is no answer", async () => {
    const { code, err } = await lastcall(["pause", `:${await freePort()}`, ...withToken]);
    assertEquals(code, 1);
    assertStringIncludes(err, "connection refused");
  });
});

describe("lastcall resume", () => {
  it("lastcall resume makes a paused group take work again", async () => {
    await using worker = await startWorker([], env);
    await lastcall(["pause", worker.url, ...withToken]);
    const { code, out } = await lastcall(["resume", worker.url, ...withToken]);
    assertEquals({ code, out }, { code: 0, out: `${worker.url} takes work again\n` });
    assertEquals(worker.group.health().ready, true);
  });

  it("lastcall resume needs the token too", async () => {
    await using worker = await startWorker();
    assertEquals((await lastcall(["resume", worker.url])).code, 2);
    const { code, err } = await lastcall(["resume", worker.url, ...withToken]);
    assertEquals(code, 1);
    assertStringIncludes(err, "cannot resume: start the group with a token");
  });
});
