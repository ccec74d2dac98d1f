import { describe, it } from "node:test";
import { replaceOneOfTwo } from "../_workers.ts";
import { gate, openForTest, url } from "./_redis.ts";

describe("worker processes on Redis", gate, () => {
  it("replacing one of two worker processes on Redis loses no message and repeats none", async () => {
    await using it = await openForTest(url);
    await replaceOneOfTwo(it.mailbox, `${url}?queue=${it.name}`, 2_000);
  });
});
