import { describe, it } from "node:test";
import { assert, assertEquals, assertFalse, assertMatch, assertStringIncludes } from "@std/assert";
import { deferred } from "../../src/_promises.ts";
import { LoopGroup } from "../../src/group/loop_group.ts";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import type { Terminal } from "../../src/runtime.ts";
import { showDrain } from "../../src/terminal/show_drain.ts";
import { FakeRuntime, VirtualClock } from "../../src/testing/mod.ts";
import { Screen } from "./_screen.ts";

/** A terminal with a readable screen, or a file when it is not interactive. */
class FakeTerminal implements Terminal {
  readonly interactive: boolean;
  readonly color = false;
  readonly columns: number;
  rows = 16;
  readonly screen = new Screen();
  written = "";

  constructor(options: { readonly interactive: boolean; readonly columns?: number }) {
    this.interactive = options.interactive;
    this.columns = options.columns ?? 80;
  }

  write(text: string): void {
    this.written += text;
  }

  async look(): Promise<string> {
    const text = this.written;
    this.written = "";
    await this.screen.write(text.replaceAll("\n", "\r\n"));
    return this.screen.lines.join("\n").trimEnd();
  }
}

/** A group whose handlers end when the test resolves them. */
class Fixture {
  readonly clock = new VirtualClock();
  readonly terminal: FakeTerminal;
  readonly runtime: FakeRuntime;
  readonly mailbox = new InMemoryMailbox<string>("orders", { clock: this.clock });
  readonly works = new Map<string, ReturnType<typeof deferred<void>>>();
  readonly loop = new MailboxLoop<string>({
    mailbox: this.mailbox,
    clock: this.clock,
    concurrency: 1_000,
    handler: ({ body }) => {
      const work = deferred();
      this.works.set(body, work);
      return work.promise;
    },
  });
  readonly group: LoopGroup;

  constructor(options: { readonly interactive: boolean; readonly columns?: number }) {
    this.terminal = new FakeTerminal(options);
    this.runtime = new FakeRuntime({ interactive: true, terminal: this.terminal });
    this.group = new LoopGroup([this.loop], { clock: this.clock, runtime: this.runtime });
  }

  async start(ids: readonly string[]): Promise<ReturnType<LoopGroup["run"]>> {
    for (const id of ids) await this.mailbox.send(id, { id });
    const run = this.group.run({ installSignals: false });
    await this.clock.advance(1_000);
    return run;
  }

  /** Starts a stop and shows it. */
  async stopping(ids: readonly string[]) {
    const { group, clock, runtime } = this;
    const view = showDrain(group, { clock, runtime });
    const run = this.start(ids);
    await clock.advance(2_000);
    const stopped = group.shutdown({ timeoutMs: 10_000 });
    await clock.advance(500);
    const end = async () => {
      for (const work of this.works.values()) work.resolve();
      await clock.until(stopped);
      view.end(await run);
    };
    return { view, end };
  }
}

describe("the live view of a stop", () => {
  it("the live view of a stop counts down and removes finished work", async () => {
    const fixture = new Fixture({ interactive: true });
    const { end } = await fixture.stopping(["tea", "cake"]);
    assertMatch(
      await fixture.terminal.look(),
      /draining ━+─* 9\.5 s left of 10\.0 s · 2 in flight/,
    );
    await fixture.clock.advance(3_000);
    assertMatch(await fixture.terminal.look(), /6\.5 s left of 10\.0 s · 2 in flight/);
    fixture.works.get("tea")!.resolve();
    await fixture.clock.advance(200);
    const screen = await fixture.terminal.look();
    assertMatch(screen, /6\.3 s left of 10\.0 s · 1 in flight/);
    assertMatch(screen, /^ {2}orders {2}cake +\d\.\d s$/m);
    assertFalse(screen.includes("tea"));
    await end();
    const last = await fixture.terminal.look();
    assertMatch(last, /^drained in 3\.7 s of 10\.0 s/);
    assertFalse(last.includes("in flight"));
    assertEquals(fixture.clock.pending, 0, "no timer is left");
  });

  it("the live view of a stop shows the oldest work and the number of hidden entries", async () => {
    const fixture = new Fixture({ interactive: true });
    const { end } = await fixture.stopping(Array.from({ length: 500 }, (_, at) => `order ${at}`));
    const screen = await fixture.terminal.look();
    assertMatch(screen, /· 500 in flight/);
    assertMatch(screen, /… and \d+ more/);
    assert(screen.split("\n").filter((line) => line.includes("order")).length <= 8);
    await end();
  });

  it("the live view of a stop shortens lines on a narrow terminal", async () => {
    const fixture = new Fixture({ interactive: true, columns: 30 });
    const { end } = await fixture.stopping(["a-very-long-id-that-does-not-fit-into-any-terminal"]);
    const screen = await fixture.terminal.look();
    for (const line of screen.split("\n")) assert(line.length <= 30, line);
    assertStringIncludes(screen, "draining 9.5 s left of 10.0 s");
    await end();
  });

  it("the live view of a stop stays at the bottom when the terminal changes its size, with the output above it", async () => {
    const fixture = new Fixture({ interactive: true });
    const { end } = await fixture.stopping(["tea"]);
    await fixture.terminal.look();
    for (const rows of [10, 20]) {
      fixture.terminal.rows = rows;
      fixture.terminal.screen.resize(rows);
      await fixture.clock.advance(200);
      for (let line = 1; line <= 30; line++) fixture.terminal.write(`line ${line}\n`);
      const lines = (await fixture.terminal.look()).split("\n");
      assertEquals(lines.length, rows);
      assertMatch(lines.at(-3)!, /^draining /);
      assertMatch(lines.at(-2)!, /tea/);
      assertEquals(lines.at(-5), "line 30", lines.join("\n"));
    }
    await end();
  });

  it("the live view of a stop replaces control characters in names and ids", async () => {
    const fixture = new Fixture({ interactive: true });
    const { end } = await fixture.stopping(["\x1b[2Jgone\nnext"]);
    assertStringIncludes(await fixture.terminal.look(), "·[2Jgone⏎next");
    await end();
  });
});

describe("the JSON lines of a stop", () => {
  const events = (terminal: FakeTerminal) =>
    terminal.written.split("\n").filter(Boolean).map((line) => JSON.parse(line));

  it("the JSON lines of a stop are one per change, and at most one per second for finished work", async () => {
    const fixture = new Fixture({ interactive: false });
    const { end } = await fixture.stopping(["a", "b", "c", "d"]);
    assertEquals(events(fixture.terminal).map(({ event, inFlight }) => [event, inFlight]), [
      ["phase", 4],
      ["phase", 4],
    ]);
    for (const id of ["a", "b"]) fixture.works.get(id)!.resolve();
    await fixture.clock.advance(5_000);
    assertEquals(
      events(fixture.terminal).slice(2).map(({ event, inFlight }) => [event, inFlight]),
      [
        ["work", 2],
      ],
    );
    await end();
    assertEquals(
      events(fixture.terminal).slice(3).map(({ event, phase, state, outcome }) => {
        return [event, phase ?? state ?? outcome];
      }),
      [["loop", "ended"], ["phase", "stopped"], ["report", "drained"]],
    );
    assertEquals(fixture.clock.pending, 0);
  });

  it("the JSON lines of a stop contain no control characters from ids", async () => {
    const fixture = new Fixture({ interactive: false });
    const { end } = await fixture.stopping(["\x1b[2J\n"]);
    await end();
    // deno-lint-ignore no-control-regex -- control characters must not be there
    assertFalse(/[\x00-\x09\x0b-\x1f]/.test(fixture.terminal.written));
  });
});
