import { describe, it } from "node:test";
import { assertEquals, assertInstanceOf, assertRejects, assertThrows } from "@std/assert";
import { deferred } from "../../src/_promises.ts";
import { CancelledError, TerminatingError } from "../../src/errors.ts";
import { checkCancellation, withCancellation } from "../../src/service/mod.ts";

describe("withCancellation", () => {
  it("withCancellation settles as its promise, and removes its listener from the signal", async () => {
    const { signal } = new AbortController();
    let listening = 0;
    const { addEventListener, removeEventListener } = signal;
    signal.addEventListener = (...args: unknown[]) => {
      listening++;
      addEventListener.apply(signal, args as never);
    };
    signal.removeEventListener = (...args: unknown[]) => {
      listening--;
      removeEventListener.apply(signal, args as never);
    };
    const work = deferred<string>();
    const wanted = withCancellation(work.promise, signal, "brewing");
    assertEquals(listening, 1);
    work.resolve("tea");
    assertEquals(await wanted, "tea");
    assertEquals(listening, 0);
    await assertRejects(
      () => withCancellation(Promise.reject(new Error("cold")), signal, "it"),
      Error,
      "cold",
    );
  });

  it("withCancellation rejects as soon as the signal aborts, with what and why in the error", async () => {
    const controller = new AbortController();
    const wanted = withCancellation(new Promise(() => {}), controller.signal, "the page");
    controller.abort(new CancelledError("deadline", "a loop"));
    const error = await assertRejects(() => wanted, CancelledError, "Cancelled the page: ");
    assertEquals([error.reason, (error.cause as CancelledError).reason], ["deadline", "deadline"]);
  });

  it("withCancellation rejects with a TerminatingError on a stop, and with a CancelledError otherwise", async () => {
    const reason = new TerminatingError("The service is stopping");
    const signal = AbortSignal.abort(reason);
    const error = await assertRejects(
      () => withCancellation(Promise.resolve("there already"), signal, "the page"),
      TerminatingError,
      "Gave up the page: The service is stopping",
    );
    assertEquals([error.code, error.cause], [5006, reason]);
    const other = await assertRejects(
      () => withCancellation(new Promise(() => {}), AbortSignal.abort("bored"), "it"),
      CancelledError,
    );
    assertEquals([other.reason, other.cause], ["aborted", "bored"]);
  });

  it("withCancellation ignores a later rejection of its promise", async () => {
    const controller = new AbortController();
    let fail: (error: Error) => void = () => {};
    const work = new Promise((_, reject) => fail = reject);
    const wanted = withCancellation(work, controller.signal, "it");
    controller.abort();
    await assertRejects(() => wanted, CancelledError);
    fail(new Error("late")); // an unhandled rejection would fail the test
    await new Promise((resolve) => setTimeout(resolve, 0));
  });
});

describe("checkCancellation", () => {
  it("checkCancellation throws when the signal has aborted", () => {
    const controller = new AbortController();
    checkCancellation(controller.signal, "round 1");
    controller.abort(new CancelledError("forced", "a loop"));
    const error = assertThrows(() => checkCancellation(controller.signal, "round 2"));
    assertInstanceOf(error, CancelledError);
    assertEquals([error.reason, error.message], [
      "forced",
      "Cancelled round 2: the stop was forced",
    ]);
  });
});
