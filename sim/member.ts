// Members of a coordinated stop: the real board, bus and loops, on a simulated board store and simulated inboxes.

import type { BoardStore } from "../src/coordination/board_store.ts";
import { Board } from "../src/coordination/board.ts";
import { Bus } from "../src/coordination/bus.ts";
import type { BusMessage } from "../src/coordination/bus_message.ts";
import { type CoordinatedLoop, coordinatedLoops } from "../src/coordination/coordinated_loop.ts";
import { BoundedCalls } from "../src/engines/_kit/calls.ts";
import type { Resource } from "../src/lifecycle/resources.ts";
import type { Log } from "../src/log.ts";
import { jsonCodec } from "../src/mailbox/codec.ts";
import { EngineMailbox } from "../src/mailbox/engine_mailbox.ts";
import type { Random } from "../src/random.ts";
import { SimulatedEngine } from "./engine.ts";
import type { Job } from "./jobs.ts";
import type { Link } from "./link.ts";
import type { Server } from "./server.ts";

/** How long a call waits for its answer. */
const CALL_TIMEOUT_MS = 2_000;

/** The queues of the inboxes. */
export const INBOX = "inbox-";

/** Announces changes of the board to all processes. */
export const BOARD = "board";

/** What a process needs to take part. */
export interface MemberParts {
  readonly link: Link;
  readonly server: Server;
  readonly random: Random;
  readonly log: Log;
}

/** The board and the bus of one process. */
export class Membership {
  readonly board: Board;
  readonly bus: Bus;

  constructor(parts: MemberParts) {
    const { link: { host }, log, random } = parts;
    const store = boardStore(parts);
    this.board = new Board({ store, clock: host, log, random });
    this.bus = new Bus({
      board: this.board,
      openInbox: (id) => {
        const queue = `${INBOX}${id}`;
        const engine = new SimulatedEngine(queue, parts);
        const options = { clock: host, log, random };
        return new EngineMailbox<BusMessage, never, string>(queue, engine, jsonCodec(), options);
      },
    });
  }

  /** Closes the bus and the board after the loops have stopped. */
  get resources(): readonly Resource[] {
    return [
      { name: "board", stop: () => this.board.close() },
      { name: "bus", stop: () => this.bus.close() },
    ];
  }

  /** Returns the loop of a member. `handle` does the work of a message. */
  async loopOf(
    id: string,
    handle: (messageId: string, job: Job, signal: AbortSignal) => Promise<void>,
  ): Promise<CoordinatedLoop> {
    const [loop] = await coordinatedLoops(this.bus, [{
      id,
      handlers: {
        task: ({ msg_id, payload }, { signal }) => handle(msg_id, payload as Job, signal),
      },
    }]);
    return loop!;
  }
}

/** The store of the board over the simulated network. */
function boardStore({ link, server }: MemberParts): BoardStore {
  const { board } = server;
  const calls = new BoundedCalls("The simulated server", link.host, CALL_TIMEOUT_MS);
  const call = <T>(what: string, act: () => T | Promise<T>) =>
    calls.run(what, () => link.call(what, act));
  return {
    write: (entries) => call("write to the board", () => server.writeBoard(entries)),
    touch: (ids) => call("touch members", () => void board.touch(ids)),
    remove: (ids) => call("remove members", () => void board.remove(ids)),
    read: (ids) => call("read members", () => board.read(ids)),
    list: (since) => call("list members", () => board.list(since)),
    onWake: (listener) => {
      const unlisten = [link.onWake(BOARD, listener), link.onReconnect(listener)];
      return () => unlisten.forEach((stop) => stop());
    },
    close: () => calls.settled(),
  };
}
