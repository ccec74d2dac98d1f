import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { Child } from "../../signals/_child.ts";
import { replaceOneOfTwo } from "../_workers.ts";
import { gate, openForTest, url } from "./_nats.ts";

describe("processes on one NATS server", gate, () => {
  it("processes on NATS lose nothing and handle nothing twice when one is stopped and replaced", async () => {
    await using it = await openForTest();
    await replaceOneOfTwo(it.mailbox, `${url}?queue=${it.name}`, 2_000);
  });

  it("the message of a killed process on NATS is delivered again when its lease expires", async () => {
    await using it = await openForTest();
    const { mailbox, name } = it;
    await mailbox.send(7);
    const args = [url, name, "500"];
    await using holder = Child.start("../../engines/nats/fixtures/holder", { args });
    await holder.line("holds 7");
    holder.kill("SIGKILL");
    await holder.exit();
    const [message] = await mailbox.receive({ waitTimeMs: 20_000 });
    assertEquals([message?.body, message?.deliveryCount], [7, 2]);
  });
});
