import { existsSync, renameSync, rmSync } from "node:fs";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { LoopGroup, MailboxConnectionError, MailboxLoop, silentLog } from "../../../mod.ts";
import { openExtender, SqliteMailbox } from "../../../src/engines/sqlite/sqlite_mailbox.ts";
import { TempFolder } from "./_folder.ts";

/** The file is looked at once in a millisecond at the most. */
const beyondOneLook = () => sleep(3);

/** What a person does who deletes a database: the files beside it go as well. */
function remove(path: string): void {
  for (const ending of ["", "-wal", "-shm"]) rmSync(`${path}${ending}`, { force: true });
}

async function refusal(act: () => Promise<unknown>): Promise<string> {
  return (await assertRejects(act, MailboxConnectionError)).message;
}

async function until(condition: () => boolean, what: string): Promise<void> {
  for (const endsAt = Date.now() + 20_000; !condition(); await sleep(5)) {
    assert(Date.now() < endsAt, `waited for ${what}`);
  }
}

describe("a SQLite file that goes away under its process", () => {
  it("a deleted file confirms nothing any more, and the error says what to do", async () => {
    using folder = new TempFolder();
    const path = folder.file();
    await using mailbox = await SqliteMailbox.open<number>(path, { log: silentLog });
    await mailbox.send(1);
    const [message] = await mailbox.receive();
    remove(path);
    await beyondOneLook();
    const text = await refusal(() => mailbox.send(2));
    assertStringIncludes(text, `"${path}" was deleted or renamed while this process had it open`);
    assertStringIncludes(text, "Move the file back to its place, or restart this process");
    for (
      const act of [
        () => mailbox.sendMany([3, 4]),
        () => mailbox.receive(),
        () => mailbox.approximateCount(),
        () => message!.acknowledge(),
      ]
    ) assertEquals(await refusal(act), text);
  });

  it("a renamed file works again when it is moved back, with all confirmed messages", async () => {
    using folder = new TempFolder();
    const [path, other] = [folder.file(), folder.file("other.db")];
    await using mailbox = await SqliteMailbox.open<number>(path, { log: silentLog });
    await mailbox.send(1);
    renameSync(path, other);
    await beyondOneLook();
    assertStringIncludes(await refusal(() => mailbox.send(2)), "deleted or renamed");
    renameSync(other, path);
    await mailbox.send(3);
    const messages = await mailbox.receive({ maxMessages: 10 });
    assertEquals(messages.map(({ body }) => body), [1, 3]);
  });

  it("a replaced file is not used any more, and the new file is not changed", async () => {
    using folder = new TempFolder();
    const path = folder.file();
    await using mailbox = await SqliteMailbox.open<number>(path, { log: silentLog });
    await mailbox.send(1);
    remove(path);
    await using fresh = await SqliteMailbox.open<number>(path, { log: silentLog });
    await fresh.send(2);
    await beyondOneLook();
    const text = await refusal(() => mailbox.send(3));
    assertStringIncludes(text, "was replaced by another file while this process had it open");
    assertStringIncludes(text, "restart this process to use the new one");
    await mailbox.close();
    assertEquals((await fresh.receive({ maxMessages: 10 })).map(({ body }) => body), [2]);
  });

  it("loops on a renamed file are not ready until it is moved back, also idle loops", async () => {
    using folder = new TempFolder();
    const [path, other] = [folder.file(), folder.file("other.db")];
    await using busy = await SqliteMailbox.open<number>(path, { name: "busy", log: silentLog });
    await using idle = await SqliteMailbox.open<number>(path, { name: "idle", log: silentLog });
    let handled = 0;
    const handler = async ({ body }: { readonly body: number }) => {
      handled++;
      await sleep(1);
      await busy.send(body + 1).catch(() => {}); // an endless errand
    };
    const loops = [busy, idle].map((mailbox) =>
      new MailboxLoop({ mailbox, handler, log: silentLog })
    );
    const group = new LoopGroup(loops, { shutdownTimeoutMs: 2_000, log: silentLog });
    const running = group.run({ installSignals: false });
    const ready = () => group.health().loops.map(({ ready }) => ready);
    await busy.send(1);
    await until(() => handled > 3, "work");
    renameSync(path, other);
    await until(() => ready().every((it) => !it), "red");
    renameSync(other, path);
    await until(() => ready().every((it) => it), "green");
    await group.shutdown();
    await running;
  });

  it("the thread that extends leases does not create a missing file", async () => {
    using folder = new TempFolder();
    const path = folder.file();
    const options = { path, queue: "default", durability: "normal" } as const;
    assertStringIncludes(await refusal(() => openExtender(options)), "does not exist any more");
    assertEquals(existsSync(path), false);
  });
});
