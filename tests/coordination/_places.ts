// The board and the bus that a test and its child processes share.

import { join } from "node:path";
import {
  type Board,
  Bus,
  type BusMessage,
  DirectoryMailbox,
  openDirectoryBoard,
  openRedisBoard,
} from "../../src/coordination/mod.ts";
import { RedisMailbox } from "../../src/engines/redis/mod.ts";

/** `place` is a URL of Redis or a folder; `name` keeps tests apart. */
export async function openPlace(
  place: string,
  name: string,
): Promise<{ readonly board: Board; readonly bus: Bus } & AsyncDisposable> {
  const onRedis = place.startsWith("redis");
  const board = onRedis
    ? await openRedisBoard(place, { name })
    : await openDirectoryBoard(join(place, "state"));
  const bus = new Bus({
    board,
    openInbox: (id) =>
      onRedis
        ? RedisMailbox.open<BusMessage>(place, { name: `${name}-${id}` })
        : DirectoryMailbox.open<BusMessage>(join(place, "messages"), id),
  });
  return {
    board,
    bus,
    async [Symbol.asyncDispose]() {
      await bus.close();
      await board.close();
    },
  };
}
