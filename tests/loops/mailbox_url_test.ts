import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { mkdirSync } from "node:fs";
import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { deferred } from "../../src/_promises.ts";
import { nextTurn } from "../../src/clock.ts";
import type { EngineRegistration } from "../../src/engines/_kit/registration.ts";
import { ENGINES } from "../../src/engines/registry.ts";
import { LoopGroup } from "../../src/group/loop_group.ts";
import { LeaseExtender, type Leases, type LeaseSubject } from "../../src/lease/lease_extender.ts";
import { silentLog } from "../../src/log.ts";
import { MailboxLoop, type MailboxLoopOptions } from "../../src/loops/mailbox_loop.ts";
import { InvalidParameterError, isMailboxError } from "../../src/mailbox/errors.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import type { Mailbox } from "../../src/mailbox/mailbox.ts";
import { FakeRuntime } from "../../src/testing/mod.ts";

function loopOn(
  mailbox: string,
  options: Partial<MailboxLoopOptions<number>> = {},
): MailboxLoop<number> {
  return new MailboxLoop<number>({ mailbox, handler: () => {}, log: silentLog, ...options });
}

/** Resolves with the mailbox of a running loop when it is open. */
async function opened(loop: MailboxLoop<number>): Promise<Mailbox<number>> {
  for (const endsAt = Date.now() + 10_000; Date.now() < endsAt;) {
    if (loop.mailbox !== undefined) return loop.mailbox;
    await nextTurn();
  }
  throw new Error("The loop has not opened its mailbox within 10 s");
}

describe("a MailboxLoop with a URL", () => {
  it("opens the mailbox when it starts, and closes it when it ends", async () => {
    const bodies: number[] = [];
    const loop = loopOn("memory:orders", { handler: ({ body }) => bodies.push(body) });
    assertEquals([loop.mailbox, loop.ready], [undefined, false]);
    const run = loop.run({ maxMessages: 2 });
    const mailbox = await opened(loop);
    assertEquals([mailbox.name, mailbox.closed, loop.ready], ["orders", false, true]);
    await mailbox.sendMany([1, 2]);
    await run;
    assertEquals(bodies, [1, 2]);
    assertEquals([mailbox.closed, loop.mailbox, loop.ready], [true, undefined, false]);
    assertEquals(loop.counts.acknowledged, 2);
  });

  it("opens a mailbox for each run", async () => {
    const loop = loopOn("memory:orders");
    const mailboxes: Mailbox<number>[] = [];
    for (const _ of [1, 2]) {
      const run = loop.run({ maxMessages: 1 });
      const mailbox = await opened(loop);
      mailboxes.push(mailbox);
      await mailbox.send(1);
      await run;
    }
    assert(mailboxes[0] !== mailboxes[1]);
    assertEquals(mailboxes.map(({ closed }) => closed), [true, true]);
  });

  it("closes the mailbox when the run fails", async () => {
    let mailbox: Mailbox<unknown> | undefined;
    class NoLeases extends LeaseExtender {
      override leases(subject: LeaseSubject): Leases {
        mailbox = subject.mailbox;
        throw new Error("no leases here");
      }
    }
    const loop = loopOn("memory:orders", { lease: new NoLeases() });
    await assertRejects(() => loop.run(), Error, "no leases here");
    assertEquals([mailbox?.closed, loop.mailbox], [true, undefined]);
  });

  it("ends a run that is stopped while its engine does not answer, and closes a late mailbox", async () => {
    const mailbox = new InMemoryMailbox<number>("orders");
    const asked = deferred();
    const answer = deferred<Mailbox<unknown>>();
    const frozen = {
      name: "frozen",
      schemes: ["frozen"],
      parameters: ["queue"],
      help: [],
      starter: { url: (queue: string) => `frozen:?queue=${queue}` },
      open() {
        asked.resolve();
        return answer.promise;
      },
    };
    const engines = ENGINES as EngineRegistration[];
    engines.push(frozen);
    try {
      const loop = loopOn("frozen:?queue=orders");
      const run = loop.run();
      await asked.promise;
      assertEquals(await loop.shutdown(), true);
      await run;
      assertEquals([loop.mailbox, loop.counts.received], [undefined, 0]);
    } finally {
      engines.splice(engines.indexOf(frozen), 1);
    }
    answer.resolve(mailbox as Mailbox<unknown>);
    await answer.promise;
    await nextTurn();
    assertEquals(mailbox.closed, true);
  });

  it("takes its name from the queue of the URL, unless it has one", () => {
    const names = [
      "memory:orders",
      "memory:",
      "redis://host:6379/0?queue=emails",
      "postgres://host/shop?sslmode=require",
      "sqs:https://sqs.eu-west-1.amazonaws.com/123/invoices",
      "sqs:invoices?region=eu-west-1",
    ].map((url) => loopOn(url).name);
    assertEquals(names, ["orders", "memory", "emails", "default", "invoices", "invoices"]);
    assertEquals(loopOn("memory:orders", { name: "mine" }).name, "mine");
  });

  it("refuses a bad URL before anything starts, without showing its password", () => {
    const cases = [
      ["orders", "Malformed mailbox URL"],
      ["pigeon:roof", 'Unknown scheme "pigeon"'],
      ["memory:orders?queue=x", 'Unknown parameter "queue"'],
      ["redis://host?queue=x&maxSize=many", "Invalid maxSize"],
    ] as const;
    for (const [url, said] of cases) {
      assertThrows(() => loopOn(url, { name: "mine" }), InvalidParameterError, said);
    }
    const error = assertThrows(() => loopOn("redis://me:secret@host/%zz"), InvalidParameterError);
    assert(!error.message.includes("secret"), error.message);
    assertThrows(() => loopOn("memory:it%27s"), InvalidParameterError, "Invalid mailbox name");
    assertThrows(
      () => loopOn(7 as never),
      TypeError,
      "expected a mailbox or the URL of one, got 7",
    );
  });

  it("rejects the run with the mailbox's error, and a group with `restart` tries again", async () => {
    const folder = await mkdtemp(join(tmpdir(), "lastcall-url-"));
    try {
      const loop = loopOn(`sqlite:${folder}/later/jobs.db?queue=orders`);
      const error = await assertRejects(() => loop.run());
      assert(isMailboxError(error, "MailboxConnectionError"), String(error));
      const group = new LoopGroup([loop], {
        runtime: new FakeRuntime(),
        onFailure: "restart",
        restart: { minBackoffMs: 1, maxBackoffMs: 1 },
        watchdogThresholdMs: false,
        log: silentLog,
      });
      group.on("loop", ({ state }) => {
        if (state === "backing_off") mkdirSync(`${folder}/later`, { recursive: true });
      });
      const run = group.run();
      const mailbox = await opened(loop);
      await group.shutdown();
      const report = await run;
      assertEquals(report.loops[0]?.restarts, 1);
      assertEquals(mailbox.closed, true);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});
