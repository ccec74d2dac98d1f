import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { WakeUps } from "../../../src/engines/postgres/_wake_ups.ts";
import type { Server, SqlClient } from "../../../src/engines/postgres/client.ts";
import { silentLog } from "../../../src/log.ts";
import { VirtualClock } from "../../../src/testing/mod.ts";

/**
 * Clients of a server whose connections have the pids 1, 2, …. The first one refuses to listen to a second channel, as
 * postgres.js does when its connection breaks during the statement. It then forgets the first channel in some orders
 * of the events, which no test can force.
 */
function serverOf(error: unknown): Server {
  let clients = 0;
  const connect = (): SqlClient => {
    const pid = ++clients;
    return {
      unsafe: () => Promise.reject(new Error("The test sends no statement")),
      listen(channel, _onNotify, onListen) {
        if (pid === 1 && channel !== "wakes") return Promise.reject(error);
        onListen?.();
        return Promise.resolve({ state: { pid }, unlisten: () => Promise.resolve() });
      },
      end: () => Promise.resolve(),
    } as SqlClient;
  };
  return { name: "PostgreSQL", connect } as unknown as Server;
}

async function pidsAfter(error: unknown): Promise<readonly (number | undefined)[]> {
  const clock = new VirtualClock();
  const wakeUps = new WakeUps(serverOf(error), "wakes", clock, silentLog, () => Promise.resolve());
  const pids: (number | undefined)[] = [];
  wakeUps.keep((pid) => pids.push(pid));
  await clock.advance(0);
  wakeUps.openInbox();
  await clock.advance(0);
  await wakeUps.close();
  return [...new Set(pids)];
}

describe("the connection to PostgreSQL that listens", () => {
  it("a connection that breaks while it listens to a second channel is replaced, and its new pid is told", async () => {
    assertEquals(await pidsAfter(new Error("write CONNECTION_CLOSED")), [1, 2]);
  });

  it("a connection whose server refuses a second channel is kept", async () => {
    const refusal = Object.assign(new Error("permission denied"), { severity: "ERROR" });
    assertEquals(await pidsAfter(refusal), [1]);
  });
});
