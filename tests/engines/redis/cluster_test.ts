import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { Cluster } from "ioredis";
import { RedisMailbox } from "../../../src/engines/redis/mod.ts";
import {
  eventually,
  hasBinary,
  missing,
  PrivateServer,
  redis,
  type ServerKind,
} from "../_servers.ts";
import { look } from "./_redis.ts";

/** A cluster of one server: it refuses scripts whose keys are not in one slot, as any cluster does. */
const clustered: ServerKind = {
  ...redis,
  args: (port, folder) => [
    ...redis.args(port, folder),
    ...["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"],
  ],
};

describe("a cluster", { skip: hasBinary(redis) ? false : missing(redis) }, () => {
  it("takes a mailbox with its dead letters and wakes whoever waits", async () => {
    await using server = await PrivateServer.start(clustered);
    await using behind = look(server.url);
    const admin = behind.redis;
    await admin.cluster("ADDSLOTS", ...Array.from({ length: 16_384 }, (_, slot) => slot));
    await eventually(async () => {
      assertEquals(/cluster_state:ok/.test(await admin.cluster("INFO") as string), true);
    });
    const client = new Cluster([{ host: "127.0.0.1", port: server.port }]);
    const mailbox = await RedisMailbox.open<string>(client, {
      name: "orders",
      pollIntervalMs: 600_000,
    });
    const waiting = mailbox.receive({ waitTimeMs: 60_000 });
    await eventually(async () => {
      const [, count] = await admin.pubsub("NUMSUB", "{lastcall:orders}:wake") as [string, number];
      assertEquals(count, 1);
    });
    await mailbox.send("first");
    const [message] = await waiting;
    await message!.saveCheckpoint("half");
    await message!.release();
    const [again] = await mailbox.receive();
    assertEquals([again?.body, again?.checkpoint, again?.deliveryCount], ["first", "half", 1]);
    await again!.bury({ reason: "test" });
    const [letter] = await mailbox.deadLetters.receive();
    await letter!.acknowledge();
    assertEquals(await mailbox.purge(), 0);
    await mailbox.close();
    client.disconnect();
  });
});
