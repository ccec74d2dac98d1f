import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { Child } from "../../signals/_child.ts";
import { replaceOneOfTwo } from "../_workers.ts";
import { gate, openForTest, url } from "./_nats.ts";

describe("processes on one NATS server", gate, () => {
  it("lose nothing and do nothing twice when one is stopped in the middle and replaced", async () => {
    await using it = await openForTest();
    await replaceOneOfTwo(it.mailbox, `${url}?queue=${it.name}`, 2_000);
  });

  it("leave their messages to others when they are killed, at the end of the lease", async () => {
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
