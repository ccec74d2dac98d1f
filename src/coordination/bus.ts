import type { Cancel } from "../clock.ts";
import { InMemoryMailbox } from "../mailbox/in_memory_mailbox.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { Agent, type AgentHome, type AgentOptions, checkAgentOptions } from "./agent.ts";
import { type AgentRecord, checkAgentId } from "./agent_state.ts";
import type { Board } from "./board.ts";
import { type Envelope, MessageIds } from "./envelope.ts";
import { Peers } from "./_peers.ts";
import { Notices } from "./_notices.ts";
import { StateWriter } from "./_state_writer.ts";
import { decideSend, type SendOptions, type SendResult } from "./send_result.ts";

/** Options of {@linkcode Bus}. */
export interface BusOptions {
  /** The board with the states of the agents. Buses of several processes share it. */
  readonly board: Board;
  /** Opens the inbox of an agent, of this process or of another. @default {one in memory} */
  readonly openInbox?: (agentId: string) => Mailbox<Envelope> | Promise<Mailbox<Envelope>>;
}

/**
 * Connects the agents of this process with each other and with those of other processes. Messages go
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
export class Bus implements AgentHome, AsyncDisposable {
  /** The board with the states of its agents. */
  readonly board: Board;
  /** Writes the states of the agents. */
  readonly states: StateWriter;
  readonly #openInbox: (agentId: string) => Mailbox<Envelope> | Promise<Mailbox<Envelope>>;
  readonly #inboxes = new Map<string, Promise<Mailbox<Envelope>>>();
  readonly #agents = new Map<string, Agent>();
  readonly #ids = new MessageIds();
  readonly #peers: Peers;
  #cancelTouch: Cancel | undefined;
  #closed = false;

  /** Creates a bus. It reads nothing before the first agent is enrolled. */
  constructor(options: BusOptions) {
    const { board } = options;
    this.board = board;
    this.states = new StateWriter(board);
    this.#openInbox = options.openInbox ??
      ((agentId) => new InMemoryMailbox<Envelope>(agentId, { clock: board.clock }));
    const notices = new Notices(board);
    this.#peers = new Peers(board, (changes, first) => {
      notices.deliver(changes, () => first ? [] : this.agents);
    });
  }

  /** The agents of this process that have not stopped. */
  get agents(): readonly Agent[] {
    return [...this.#agents.values()];
  }

  /** Adds an agent and sets its state to `running`, from any earlier state. */
  async enrol(options: AgentOptions): Promise<Agent> {
    const [agent] = await this.enrolAll([options]);
    return agent!;
  }

  /** Adds several agents with one write to the board. */
  async enrolAll(all: readonly AgentOptions[]): Promise<readonly Agent[]> {
    if (this.#closed) throw new Error("Cannot enrol an agent: the bus is closed");
    const ids = new Set<string>();
    for (const { id } of all.map(checkAgentOptions)) {
      if (this.#agents.has(id) || ids.has(id)) {
        throw new Error(`Agent "${id}" is enrolled already: stop it before it starts anew`);
      }
      ids.add(id);
    }
    const agents = await Promise.all(all.map(async (options) => {
      return new Agent(this, options.inbox ?? await this.inboxOf(options.id), options);
    }));
    await this.#peers.start();
    for (const agent of agents) this.#agents.set(agent.id, agent);
    try {
      await this.board.setStates(agents.map(({ id, metadata }) => {
        return { agentId: id, state: "running", metadata, force: true };
      }));
    } catch (error) {
      for (const { id } of agents) this.#agents.delete(id);
      throw error;
    }
    if (this.#cancelTouch === undefined) this.#scheduleTouch();
    return agents;
  }

  /**
   * Sends a message. When the receiver is stopping or gone, nothing is stored: `whenPaused` decides whether
   * `send` returns this, waits, or redirects the message. Rejects with a `MailboxFullError` when the inbox is
   * full.
   */
  async send(
    from: Agent,
    to: string,
    type: string,
    payload: unknown,
    options: SendOptions = {},
  ): Promise<SendResult> {
    checkAgentId(to);
    let receiver = to;
    for (const tried = new Set<string>();;) {
      const record = await this.#peers.get(receiver);
      const decision = decideSend(record, options.whenPaused ?? "tell");
      if (decision.kind === "refuse") return { outcome: decision.outcome, to: receiver, record };
      if (decision.kind === "accept") break;
      if (decision.kind === "hold") await this.#peers.change(record, options.signal);
      else if (tried.has(decision.to)) return { outcome: "paused", to: receiver, record };
      else tried.add(receiver = checkAgentId(decision.to));
    }
    const inbox = await this.inboxOf(receiver);
    const id = this.#ids.next(this.board.clock.now());
    await inbox.send({
      version: "1.0",
      msg_id: id,
      from: from.id,
      to: receiver,
      timestamp: Math.floor(this.board.clock.now() / 1_000),
      sequence: from.nextSequence(receiver),
      type,
      payload,
      requires_ack: options.requiresAck ?? false,
    });
    return { outcome: "accepted", to: receiver, messageId: id };
  }

  /** Returns the inbox of an agent, which is opened at most once. */
  inboxOf(agentId: string): Promise<Mailbox<Envelope>> {
    const own = this.#agents.get(agentId)?.inbox;
    if (own !== undefined) return Promise.resolve(own);
    let inbox = this.#inboxes.get(agentId);
    if (inbox === undefined) {
      inbox = Promise.resolve().then(() => this.#openInbox(agentId));
      this.#inboxes.set(agentId, inbox);
      inbox.catch(() => this.#inboxes.delete(agentId)); // the next call tries again
    }
    return inbox;
  }

  /** Returns the current records of the other agents. */
  async peersOf(agent: Agent): Promise<readonly AgentRecord[]> {
    return (await this.board.list()).filter(({ agentId }) => agentId !== agent.id);
  }

  /** Notifies all peers that these agents are stopping, with one write to the board. */
  async broadcastStop(agents: readonly Agent[], why: string): Promise<void> {
    const [first] = agents;
    if (first === undefined) return;
    const notice = first.notice = {
      id: this.#ids.next(this.board.clock.now()),
      reason: "Peer agent shutting down - inbox draining in progress",
      agents: agents.map(({ id }) => id),
      sequences: first.sequences,
    };
    const metadata = { ...first.metadata, reason: why };
    await this.states.write({ agentId: first.id, state: "shutting_down", metadata, notice });
  }

  /** Stops reporting that the agent is alive. */
  endLiveness(agent: Agent): void {
    this.#agents.delete(agent.id);
    if (this.#agents.size > 0) return;
    this.#cancelTouch?.();
    this.#cancelTouch = undefined;
  }

  /** Stops the bus and closes the inboxes that it has opened. The board stays open. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelTouch?.();
    this.#agents.clear();
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

  /** Touches the agents three times within `staleAfterMs`. */
  #scheduleTouch(): void {
    const { board } = this;
    this.#cancelTouch = board.clock.schedule(board.staleAfterMs / 3, () => {
      this.#scheduleTouch();
      board.touch([...this.#agents.keys()]).catch((error) => {
        board.log.warn("could not touch the agents on the board; they may become stale", { error });
      });
    });
  }
}
