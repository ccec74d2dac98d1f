import type { Cancel } from "../clock.ts";
import { InMemoryMailbox } from "../mailbox/in_memory_mailbox.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { Peers } from "./_peers.ts";
import type { Board } from "./board.ts";
import { type BusMessage, messageIds, type SendOptions, type SendResult } from "./bus_message.ts";
import { checkMemberOptions, Member, type MemberBus, type MemberOptions } from "./member.ts";
import { checkAgentId } from "./member_state.ts";

/** Options of {@linkcode Bus}. */
export interface BusOptions {
  /** The board with the states of the members. Buses of several processes share it. */
  readonly board: Board;
  /** Opens the inbox of a member, of this process or of another. @default {one in memory} */
  readonly openInbox?: (agentId: string) => Mailbox<BusMessage> | Promise<Mailbox<BusMessage>>;
}

/**
 * Connects the members of this process with each other and with those of other processes. Messages go
 * through the inboxes. Stop notices go through the board, so that they never displace messages and cost
 * one write for any number of peers.
 *
 * @example
 * ```ts
 * import { Board, Bus, shutdownWithCoordination } from "@lastcall/lastcall/coordination";
 *
 * await using board = new Board();
 * await using bus = new Bus({ board });
 * const done: unknown[] = [];
 * const worker = await bus.enrol({
 *   id: "worker-1",
 *   handlers: { task: ({ payload }) => done.push(payload) },
 * });
 * const sender = await bus.enrol({ id: "sender" });
 * await bus.send(sender, "worker-1", "task", { id: 1 });
 *
 * const report = await shutdownWithCoordination(worker, { timeoutMs: 10_000 });
 * console.assert(report.complete && done.length === 1);
 * console.assert((await bus.send(sender, "worker-1", "task", {})).outcome === "gone");
 * ```
 */
export class Bus implements MemberBus, AsyncDisposable {
  /** The board with the states of its members. */
  readonly board: Board;
  readonly #openInbox: (agentId: string) => Mailbox<BusMessage> | Promise<Mailbox<BusMessage>>;
  readonly #inboxes = new Map<string, Promise<Mailbox<BusMessage>>>();
  readonly #members = new Map<string, Member>();
  readonly #nextId: (nowMs: number) => string;
  readonly #peers: Peers;
  #cancelTouch: Cancel | undefined;
  #closed = false;

  /** Creates a bus. It reads nothing before the first member is enrolled. */
  constructor(options: BusOptions) {
    const { board } = options;
    this.board = board;
    this.#nextId = messageIds(board.random);
    this.#openInbox = options.openInbox ??
      ((agentId) => new InMemoryMailbox<BusMessage>(agentId, { clock: board.clock }));
    this.#peers = new Peers(board, () => this.members);
  }

  /** The members of this process that have not stopped. */
  get members(): readonly Member[] {
    return [...this.#members.values()];
  }

  /** Adds a member and sets its state to `running`, from any earlier state. */
  async enrol(options: MemberOptions): Promise<Member> {
    const [member] = await this.enrolAll([options]);
    return member!;
  }

  /** Adds several members with one write to the board. */
  async enrolAll(all: readonly MemberOptions[]): Promise<readonly Member[]> {
    if (this.#closed) throw new Error("Cannot enrol a member: the bus is closed. Create a new bus");
    const ids = new Set<string>();
    for (const { id } of all.map(checkMemberOptions)) {
      if (this.#members.has(id) || ids.has(id)) {
        throw new Error(`Member "${id}" is enrolled already: stop it before you enrol it again`);
      }
      ids.add(id);
    }
    const members = await Promise.all(all.map(async (options) => {
      return new Member(this, options.inbox ?? await this.inboxOf(options.id), options);
    }));
    await this.#peers.start();
    for (const member of members) this.#members.set(member.id, member);
    try {
      await this.board.setStates(members.map(({ id, metadata }) => {
        return { agentId: id, state: "running", metadata, force: true };
      }));
    } catch (error) {
      for (const { id } of members) this.#members.delete(id);
      throw error;
    }
    if (this.#cancelTouch === undefined) this.#scheduleTouch();
    return members;
  }

  /**
   * Sends a message. When the receiver is stopping or gone, nothing is stored: `whenPaused` decides whether
   * `send` returns this, waits, or redirects the message. Rejects with a `MailboxFullError` when the inbox is
   * full.
   */
  async send(
    from: Member,
    to: string,
    type: string,
    payload: unknown,
    options: SendOptions = {},
  ): Promise<SendResult> {
    const { whenPaused = "tell", signal, requiresAck = false } = options;
    let receiver = checkAgentId(to);
    for (const tried = new Set<string>();;) {
      const record = await this.#peers.get(receiver);
      const { status, metadata } = record;
      if (status === "running") break;
      const outcome = status === "shutting_down" || status === "corrupt" ? "paused" : "gone";
      const target = typeof whenPaused === "object" ? whenPaused.redirectTo : metadata?.successor;
      if (whenPaused === "hold" && outcome === "paused") await this.#peers.change(record, signal);
      else if (whenPaused === "tell" || whenPaused === "hold" || typeof target !== "string") {
        return { outcome, to: receiver, record };
      } else if (tried.has(target)) return { outcome: "paused", to: receiver, record };
      else tried.add(receiver = checkAgentId(target));
    }
    const inbox = await this.inboxOf(receiver);
    const id = this.#nextId(this.board.clock.now());
    await inbox.send({
      version: "1.0",
      msg_id: id,
      from: from.id,
      to: receiver,
      timestamp: Math.floor(this.board.clock.now() / 1_000),
      sequence: from.nextSequence(receiver),
      type,
      payload,
      requires_ack: requiresAck,
    });
    return { outcome: "accepted", to: receiver, messageId: id };
  }

  /** Returns the inbox of a member, which is opened at most once. */
  inboxOf(agentId: string): Promise<Mailbox<BusMessage>> {
    const own = this.#members.get(agentId)?.inbox;
    if (own !== undefined) return Promise.resolve(own);
    let inbox = this.#inboxes.get(agentId);
    if (inbox === undefined) {
      inbox = Promise.resolve().then(() => this.#openInbox(agentId));
      this.#inboxes.set(agentId, inbox);
      inbox.catch(() => this.#inboxes.delete(agentId)); // the next call tries again
    }
    return inbox;
  }

  /** Notifies all peers that these members are stopping, with one write to the board. */
  async broadcastStop(members: readonly Member[], why: string): Promise<void> {
    const [first] = members;
    if (first === undefined) return;
    const notice = {
      id: this.#nextId(this.board.clock.now()),
      reason: "Peer agent shutting down - inbox draining in progress",
      agents: members.map(({ id }) => id),
      sequences: first.sequences,
    };
    first.setNotice(notice);
    const metadata = { ...first.metadata, reason: why };
    await this.board.setState(first.id, "shutting_down", metadata, { notice });
  }

  /** Stops reporting that the member is alive. */
  endLiveness(member: Member): void {
    this.#members.delete(member.id);
    if (this.#members.size > 0) return;
    this.#cancelTouch?.();
    this.#cancelTouch = undefined;
  }

  /** Stops the bus and closes the inboxes that it has opened. The board stays open. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelTouch?.();
    this.#members.clear();
    this.#peers.stop();
    const inboxes = await Promise.allSettled(this.#inboxes.values());
    this.#inboxes.clear();
    await Promise.all(inboxes.map(async (it) => {
      if (it.status === "fulfilled") await it.value.close();
    }));
  }

  /** Calls `close`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Touches the members three times within `staleAfterMs`. */
  #scheduleTouch(): void {
    const { board } = this;
    this.#cancelTouch = board.clock.schedule(board.staleAfterMs / 3, () => {
      this.#scheduleTouch();
      board.touch([...this.#members.keys()]).catch((error) => {
        board.log.warn("board touch failed; members may become stale", { error });
      });
    });
  }
}
