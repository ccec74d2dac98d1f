import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { DenoKvMailbox, type Kv, type KvAtomic } from "../../../src/engines/deno_kv/mod.ts";
import { type Log, silentLog } from "../../../src/log.ts";
import type { Message } from "../../../src/mailbox/mailbox.ts";
import { VirtualClock } from "../../../src/testing/mod.ts";
import { Child } from "../../signals/_child.ts";
import { gate, openStore, TempFolder } from "./_kv.ts";

const HOUR_MS = 3_600_000;

/** A store, mailboxes on it that count as one process each, and a clock. */
class Site implements AsyncDisposable {
  readonly folder: TempFolder = new TempFolder();
  readonly path: string = this.folder.file("jobs.kv");
  readonly clock: VirtualClock = new VirtualClock(Date.now());
  readonly warnings: string[] = [];
  readonly #opened: AsyncDisposable[] = [];
  #kv!: Kv;
  /** How many calls of the store run, and how many commits there were. */
  #running = 0;
  commits = 0;

  static async open(): Promise<Site> {
    const site = new Site();
    site.#kv = await openStore(site.path);
    return site;
  }

  async mailbox(clock: VirtualClock = this.clock): Promise<DenoKvMailbox<string>> {
    const log: Log = { ...silentLog, warn: (message) => void this.warnings.push(message) };
    const options = { name: "orders", clock, log, pollIntervalMs: 24 * HOUR_MS };
    const mailbox = await DenoKvMailbox.open<string>(this.#watched(), options);
    this.#opened.push(mailbox);
    return mailbox;
  }

  async hold(): Promise<Child> {
    const child = Child.start("../../engines/deno_kv/fixtures/holder", {
      runFlags: ["run", "-A", "--unstable-kv"],
      args: [this.path],
    });
    this.#opened.push(child);
    await child.matches(/^holding/m);
    return child;
  }

  /** Lets a second pass, and waits until no call of the store runs. */
  async second(): Promise<void> {
    await this.clock.advance(1_000);
    for (let quiet = 0; quiet < 5; quiet = this.#running === 0 ? quiet + 1 : 0) {
      await new Promise((resolve) => setTimeout(resolve));
    }
  }

  async seconds(count: number): Promise<void> {
    for (let i = 0; i < count; i++) await this.second();
  }

  /** Returns how many processes are registered. */
  async owners(): Promise<number> {
    let count = 0;
    for await (const _ of this.#kv.list({ prefix: ["lastcall", "orders", "owner"] })) count++;
    return count;
  }

  /** Writes what an earlier version stored. */
  async set(key: readonly string[] | readonly (string | number)[], value: unknown): Promise<void> {
    await this.#kv.atomic().set(key, value).commit();
  }

  #watched(): Kv {
    const kv = this.#kv;
    const during = async <T>(call: Promise<T>): Promise<T> => {
      this.#running++;
      try {
        return await call;
      } finally {
        this.#running--;
      }
    };
    const listing = async function* (entries: AsyncIterable<unknown>) {
      const iterator = entries[Symbol.asyncIterator]();
      for (let it = await during(iterator.next()); !it.done; it = await during(iterator.next())) {
        yield it.value;
      }
    };
    return {
      get: (key) => during(kv.get(key)),
      getMany: (keys) => during(kv.getMany(keys)),
      list: (selector, options) => listing(kv.list(selector, options)),
      atomic: () => {
        const atomic: KvAtomic = kv.atomic();
        const commit = atomic.commit.bind(atomic);
        atomic.commit = () => (this.commits++, during(commit()));
        return atomic;
      },
      watch: (keys) => kv.watch(keys),
      close: () => {},
    } as Kv;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const it of this.#opened.reverse()) await it[Symbol.asyncDispose]();
    this.#kv.close();
    this.folder[Symbol.dispose]();
  }
}

/** Receives until the mailbox is closed. */
function receiveIn(mailbox: DenoKvMailbox<string>): Message<string>[] {
  const received: Message<string>[] = [];
  void (async () => {
    while (!mailbox.closed) received.push(...await mailbox.receive({ waitTimeMs: HOUR_MS }));
  })();
  return received;
}

async function holdOne(mailbox: DenoKvMailbox<string>): Promise<Message<string>> {
  const [message] = await mailbox.receive({ visibilityTimeoutMs: HOUR_MS });
  return message!;
}

describe("processes that hold messages in Deno KV", gate, () => {
  it("the message of a killed process is received by another one within 20 seconds", async () => {
    await using site = await Site.open();
    const mailbox = await site.mailbox();
    assertEquals(mailbox.capabilities.ownerDetection, true);
    assertEquals(mailbox.deadLetters.capabilities.ownerDetection, false);
    await mailbox.send("first", { key: "k" });
    await mailbox.send("second", { key: "k" });
    const child = await site.hold();
    child.kill("SIGKILL");
    await child.exit();
    const received = receiveIn(mailbox);
    let seconds = 0;
    for (; received.length === 0 && seconds < 60; seconds++) await site.second();
    assert(seconds >= 10 && seconds <= 20, `${seconds} s`);
    const [first] = received;
    assertEquals([first?.body, first?.deliveryCount, first?.leaseExpiries], ["first", 2, 1]);
    assertEquals(site.warnings, ["worker died; its messages are delivered again"]);
    await first!.acknowledge();
    await site.second();
    assertEquals(received[1]?.body, "second", "it was behind the first one");
  });

  it("a process that holds a message for long keeps it", async () => {
    await using site = await Site.open();
    const [holder, other] = [await site.mailbox(), await site.mailbox()];
    await holder.send("work");
    const message = await holdOne(holder);
    const received = receiveIn(other);
    await site.seconds(60);
    assertEquals([received, site.warnings], [[], []]);
    assertEquals(await holder.acknowledgeMany([message]), [true]);
  });

  it("a process that is frozen for 20 seconds loses its messages, and its receipt handles are stale", async () => {
    await using site = await Site.open();
    const frozen = await site.mailbox(new VirtualClock(site.clock.now()));
    const other = await site.mailbox();
    await frozen.send("work");
    const message = await holdOne(frozen);
    const received = receiveIn(other);
    await site.seconds(14);
    assertEquals(received, []);
    await site.seconds(6);
    assertEquals(received.map(({ body }) => body), ["work"]);
    assertEquals(await frozen.acknowledgeMany([message]), [false]);
    assertEquals(await other.acknowledgeMany(received), [true]);
  });

  it("a delivery writes its time stamp with the lease, and a process without messages writes nothing", async () => {
    await using site = await Site.open();
    const mailbox = await site.mailbox();
    await mailbox.sendMany(["a", "b", "c"]);
    site.commits = 0;
    for (let i = 0; i < 3; i++) await (await holdOne(mailbox)).acknowledge();
    assertEquals(site.commits, 6, "a receive and an acknowledgement each");
    assertEquals(await site.owners(), 1);
    await site.seconds(6);
    assertEquals([site.commits, await site.owners()], [7, 0], "its key is deleted");
    await site.seconds(60);
    assertEquals([site.commits, site.clock.pending], [7, 0]);

    await mailbox.send("d");
    await holdOne(mailbox);
    assertEquals(await site.owners(), 1, "it is registered again");
  });

  it("a process that closes its mailbox is not taken for dead, and its leases stay", async () => {
    await using site = await Site.open();
    const [first, second] = [await site.mailbox(), await site.mailbox()];
    await first.send("work");
    await holdOne(first);
    await first.close();
    assertEquals(await site.owners(), 0);
    const received = receiveIn(second);
    await site.seconds(30);
    assertEquals([received, (await second.stats()).inFlight], [[], 1]);
  });

  it("a pause that an earlier version stored lasts until it is resumed", async () => {
    await using site = await Site.open();
    const mailbox = await site.mailbox();
    await site.set(["lastcall", "orders", "hidden", -1], []);
    await mailbox.send("work");
    const { paused, pausedForMs } = await mailbox.stats();
    assertEquals([paused, pausedForMs], [true, undefined]);
    assertEquals(await mailbox.receive(), []);
    await mailbox.resume();
    assertEquals((await mailbox.receive())[0]?.body, "work");
    assertEquals((await mailbox.stats()).paused, false);
  });

  it("a lease that an earlier version stored expires by its time and counts", async () => {
    await using site = await Site.open();
    const mailbox = await site.mailbox();
    const dueAt = site.clock.now() + 30_000;
    const head = [1, "n", "id", 0, 0, 1, 1, 0, null, 0, 0, 1];
    const record = new TextEncoder().encode(`${JSON.stringify(head)}\n"old"`);
    await site.set(["lastcall", "orders", "hidden", dueAt, 1, "n"], [record]);
    const received = receiveIn(mailbox);
    await site.seconds(29);
    assertEquals(received, []);
    await site.seconds(2);
    const [old] = received;
    assertEquals([old?.body, old?.deliveryCount, old?.leaseExpiries], ["old", 2, 1]);
  });
});
