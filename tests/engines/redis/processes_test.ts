import { describe, it } from "node:test";
import { replaceOneOfTwo } from "../_workers.ts";
import { gate, openForTest, url } from "./_redis.ts";

describe("processes on one Redis server", gate, () => {
  it("lose nothing and do nothing twice when one is stopped in the middle and replaced", async () => {
    await using it = await openForTest(url);
    await replaceOneOfTwo(it.mailbox, `${url}?queue=${it.name}`, 2_000);
  });
});
