import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { type EvalProgress, showProgress } from "../../src/evals/mod.ts";
import { VirtualClock } from "../../src/testing/mod.ts";

/** A stream that records its text, and a view that writes to it. */
class Screen {
  readonly clock: VirtualClock = new VirtualClock();
  readonly written: string[] = [];
  readonly view: ReturnType<typeof showProgress>;

  constructor(isTTY?: boolean) {
    const write = (text: string) => this.written.push(text);
    this.view = showProgress({ write, isTTY }, { clock: this.clock });
  }

  async show(finished: number, afterMs: number, more: Partial<EvalProgress> = {}): Promise<void> {
    await this.clock.advance(afterMs);
    this.view.update({
      evaluationId: "e",
      total: 200,
      finished,
      passed: finished,
      errors: 0,
      ...more,
    });
  }
}

describe("showProgress", () => {
  it("showProgress updates one line of a terminal at most every 100 ms", async () => {
    const screen = new Screen(true);
    await screen.show(0, 0);
    await screen.show(1, 99);
    await screen.show(50, 1, { passed: 40, errors: 3 });
    await screen.show(60, 50);
    await screen.show(200, 1);
    screen.view.end();
    assertEquals(screen.written, [
      "\re: 0/200 samples\x1b[K",
      "\re: 50/200 samples · 80.0 % passed · 3 errors · about 1 s left\x1b[K",
      "\re: 200/200 samples · 100.0 % passed\x1b[K",
      "\n",
    ]);
  });

  it("showProgress writes a line every 10 percent and every 10 seconds elsewhere", async () => {
    const screen = new Screen();
    await screen.show(0, 0);
    for (let finished = 1; finished <= 40; finished++) await screen.show(finished, 100);
    await screen.show(41, 9_999);
    await screen.show(42, 1);
    await screen.show(43, 1);
    screen.view.end();
    assertEquals(screen.written, [
      "e: 0/200 samples\n",
      "e: 20/200 samples · 100.0 % passed · about 18 s left\n",
      "e: 40/200 samples · 100.0 % passed · about 16 s left\n",
      "e: 42/200 samples · 100.0 % passed · about 53 s left\n",
      "e: 43/200 samples · 100.0 % passed · about 52 s left\n",
    ]);
  });

  it("showProgress estimates the time left from results since its first update", async () => {
    const screen = new Screen();
    await screen.show(100, 0);
    await screen.show(120, 20 * 60_000);
    assertEquals(
      screen.written.at(-1),
      "e: 120/200 samples · 100.0 % passed · about 80 min left\n",
    );
  });

  it("showProgress writes nothing when it ends without an update", () => {
    const screen = new Screen(true);
    screen.view.end();
    assertEquals(screen.written, []);
  });
});
