import { test } from "node:test";
import { assertEquals } from "@std/assert";
import { SqliteMailbox } from "../../../src/engines/sqlite/mod.ts";
import { Child } from "../../signals/_child.ts";
import { TempFolder } from "./_folder.ts";

test("a message that kills its process three times ends with the dead letters", async () => {
  using folder = new TempFolder();
  await using jobs = await SqliteMailbox.open<string>(folder.file(), { name: "jobs" });
  await jobs.send("poison");
  const start = () =>
    Child.start("../../engines/sqlite/fixtures/poisoned", { args: [folder.file()] });
  for (let attempt = 1; attempt <= 3; attempt++) {
    await using victim = start();
    assertEquals((await victim.exit()).signal, "SIGKILL", `attempt ${attempt}`);
  }
  await using survivor = start();
  const [letter] = await jobs.deadLetters.receive({ waitTimeMs: 15_000 });
  const { body, reason, deliveryCount } = letter!.body;
  assertEquals([body, reason, deliveryCount], ["poison", "max_deliveries", 4]);
  await letter!.acknowledge();
  survivor.kill("SIGTERM");
  assertEquals((await survivor.exit()).code, 0);
});
