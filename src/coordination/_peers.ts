import { abortable, contain, deferred } from "../_promises.ts";
import type { Board } from "./board.ts";
import type { ShutdownNotification } from "./bus_message.ts";
import type { Member } from "./member.ts";
import type { MemberRecord, StopNotice } from "./member_state.ts";

/**
 * Watches the board for the members of this process. It caches the records of all members, and delivers
 * each stop notice once to every local member.
 */
export class Peers {
  readonly #board: Board;
  readonly #localMembers: () => readonly Member[];
  readonly #known = new Map<string, MemberRecord>();
  readonly #waiting = new Set<() => void>();
  /** The id of the last delivered notice, by sender. */
  readonly #delivered = new Map<string, string>();
  #stop: (() => void) | undefined;
  /** True until the first read is complete: its notices are older than the local members. */
  #first = true;

  constructor(board: Board, localMembers: () => readonly Member[]) {
    this.#board = board;
    this.#localMembers = localMembers;
  }

  /** Starts the watch. Resolves when the cache is filled. */
  async start(): Promise<void> {
    if (this.#stop !== undefined) return;
    this.#stop = this.#board.watch((changes) => this.#update(changes));
    await this.#board.synced();
    this.#first = false;
  }

  stop(): void {
    this.#stop?.();
    this.#stop = undefined;
    this.#wake();
  }

  /** Returns the record of a member, from the board if it is not cached. */
  async get(agentId: string): Promise<MemberRecord> {
    await this.start();
    return this.#known.get(agentId) ?? await this.#board.getState(agentId);
  }

  /** Resolves when the status of the member differs from `record`. */
  async change(record: MemberRecord, signal: AbortSignal | undefined): Promise<void> {
    while (this.#stop !== undefined && this.#known.get(record.agentId)?.status === record.status) {
      const changed = deferred();
      this.#waiting.add(changed.resolve);
      try {
        await (signal ? abortable(changed.promise, signal) : changed.promise);
      } finally {
        this.#waiting.delete(changed.resolve);
      }
    }
    if (this.#stop === undefined) throw new Error("The bus was closed while a message was held");
  }

  #update(changes: readonly MemberRecord[]): void {
    for (const record of changes) {
      if (record.status !== "unknown") this.#known.set(record.agentId, record);
      else {
        this.#known.delete(record.agentId);
        this.#delivered.delete(record.agentId);
      }
    }
    for (const record of changes) this.#deliver(record);
    this.#wake();
  }

  #deliver(record: MemberRecord): void {
    const { agentId, status, notice } = record;
    if (notice === undefined || this.#delivered.get(agentId) === notice.id) return;
    this.#delivered.set(agentId, notice.id);
    if (this.#first) return;
    // A member that runs again still has the notice of its earlier stop.
    if (status !== "shutting_down" && status !== "shutdown_complete") return;
    const stopping = new Set(notice.agents);
    for (const member of this.#localMembers()) {
      if (member.stopping || stopping.has(member.id)) continue;
      contain(
        () => member.options.onNotification?.(notification(record, notice, member.id)),
        (error) => {
          this.#board.log.error("onNotification failed", { agentId: member.id, error });
        },
      );
    }
  }

  #wake(): void {
    for (const resolve of [...this.#waiting]) resolve();
  }
}

function notification(
  { agentId, updatedAt = 0 }: MemberRecord,
  { id, reason, agents, sequences = {} }: StopNotice,
  to: string,
): ShutdownNotification {
  return {
    version: "1.0",
    msg_id: `${id}-${to}`,
    from: agentId,
    to,
    timestamp: Math.floor(updatedAt / 1_000),
    sequence: (sequences[to] ?? 0) + 1,
    type: "shutdown_notification",
    payload: {
      shutting_down_agent: agentId,
      action: "pause_sending",
      reason,
      ...(agents.length > 1 && { shutting_down_agents: agents }),
    },
    requires_ack: false,
  };
}
