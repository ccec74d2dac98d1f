import { test } from "node:test";
import { assertEquals } from "@std/assert";
import { SqliteMailbox } from "../../../src/engines/sqlite/mod.ts";
import { Child } from "../../signals/_child.ts";
import { eventually } from "../_servers.ts";
import { TempFolder } from "./_folder.ts";

test("a message that kills its process ends with the dead letters, and takes none along", async () => {
  using folder = new TempFolder();
  await using jobs = await SqliteMailbox.open<number>(folder.file(), { name: "jobs" });
  const all = Array.from({ length: 300 }, (_, i) => i);
  await jobs.sendMany(all);
  const start = () =>
    Child.start("../../engines/sqlite/fixtures/poisoned", { args: [folder.file()] });
  const handled = new Set<number>();
  const read = (stdout: string) => {
    for (const [, body] of stdout.matchAll(/^handled (\d+)$/gm)) handled.add(Number(body));
  };
  // Twice together with those in flight beside it, then twice alone.
  for (let attempt = 1; attempt <= 4; attempt++) {
    await using victim = start();
    const { signal, stdout } = await victim.exit();
    assertEquals(signal, "SIGKILL", `attempt ${attempt}`);
    read(stdout);
  }
  await using survivor = start();
  const [letter] = await jobs.deadLetters.receive({ waitTimeMs: 15_000 });
  const { body, reason, deliveryCount } = letter!.body;
  assertEquals([body, reason, deliveryCount], [50, "max_deliveries", 5]);
  await letter!.acknowledge();
  await eventually(async () => assertEquals(await jobs.approximateCount(), 0));
  survivor.kill("SIGTERM");
  const { code, stdout } = await survivor.exit();
  assertEquals(code, 0);
  read(stdout);
  assertEquals(await jobs.deadLetters.approximateCount(), 0, "no other message is there");
  assertEquals([...handled].sort((a, b) => a - b), all.filter((body) => body !== 50));
});
