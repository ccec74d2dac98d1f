// Members in memory, on a virtual clock.

import {
  Board,
  Bus,
  type BusOptions,
  type Member,
  type MemberOptions,
  type ShutdownNotification,
} from "../../src/coordination/mod.ts";
import { silentLog } from "../../src/log.ts";
import { VirtualClock } from "../../src/testing/virtual_clock.ts";

export interface World extends AsyncDisposable {
  readonly clock: VirtualClock;
  readonly board: Board;
  readonly bus: Bus;
  /** The member that sends in tests. */
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
      if (clock.pending > 0) throw new Error(`${clock.pending} timers are left`);
    },
  };
}

/** Enrols a member that records the messages it handles and the notifications it gets. */
export async function enrolRecorder(
  bus: Bus,
  id: string,
  options: Partial<MemberOptions> = {},
): Promise<{
  readonly member: Member;
  readonly worked: unknown[];
  readonly told: ShutdownNotification[];
}> {
  const worked: unknown[] = [];
  const told: ShutdownNotification[] = [];
  const member = await bus.enrol({
    id,
    handlers: { task: ({ payload }) => void worked.push(payload) },
    onNotification: (notification) => void told.push(notification),
    ...options,
  });
  return { member, worked, told };
}

/** Sends `count` tasks, numbered from 1. */
export async function sendTasks(bus: Bus, from: Member, to: string, count: number): Promise<void> {
  for (let id = 1; id <= count; id++) await bus.send(from, to, "task", { id });
}
