// Agents in memory, on a clock that stands still.

import {
  type Member,
  type MemberOptions,
  Board,
  Bus,
  type BusOptions,
  type ShutdownNotification,
} from "../../src/coordination/mod.ts";
import { silentLog } from "../../src/log.ts";
import { VirtualClock } from "../../src/testing/virtual_clock.ts";

export interface World extends AsyncDisposable {
  readonly clock: VirtualClock;
  readonly board: Board;
  readonly bus: Bus;
  /** Who sends in tests. */
  readonly sender: Member;
}

export async function makeWorld(options: Partial<BusOptions> = {}): Promise<World> {
  const clock = new VirtualClock();
  const board = options.board ?? new Board({ clock, log: silentLog });
  const bus = new Bus({ board, ...options });
  const sender = await bus.enrol({ id: "sender" });
  return {
    clock,
    board,
    bus,
    sender,
    async [Symbol.asyncDispose]() {
      await bus.close();
      await board.close();
      if (clock.pending > 0) throw new Error(`${clock.pending} timers were left behind`);
    },
  };
}

/** An agent that writes down what it works on and what it is told. */
export async function enrolRecorder(
  bus: Bus,
  id: string,
  options: Partial<MemberOptions> = {},
): Promise<{
  readonly agent: Member;
  readonly worked: unknown[];
  readonly told: ShutdownNotification[];
}> {
  const worked: unknown[] = [];
  const told: ShutdownNotification[] = [];
  const agent = await bus.enrol({
    id,
    handlers: { task: ({ payload }) => void worked.push(payload) },
    onNotification: (notification) => void told.push(notification),
    ...options,
  });
  return { agent, worked, told };
}

/** Sends so many tasks, numbered from 1. */
export async function sendTasks(bus: Bus, from: Member, to: string, count: number): Promise<void> {
  for (let id = 1; id <= count; id++) await bus.send(from, to, "task", { id });
}
