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
import { type SendOptions, type SendResult, verdictOn } from "./send_result.ts";

/** Options of {@linkcode Bus}. */
export interface BusOptions {
  /** Where agents say how they are; buses of several processes share it. */
  readonly board: Board;
  /** Opens the inbox of an agent, of this process or of another. @default {one in memory} */
  readonly openInbox?: (agentId: string) => Mailbox<Envelope> | Promise<Mailbox<Envelope>>;
}

/**
 * Agents of this process, their inboxes, and the way to those of others. Work travels through the
 * inboxes. That an agent is stopping travels through the board, so that it never displaces work and
 * costs one write however many peers there are.
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
  /** Where its agents say how they are. */
  readonly board: Board;
  /** Writes what the agents say of themselves. */
  readonly states: StateWriter;
  readonly #openInbox: (agentId: string) => Mailbox<Envelope> | Promise<Mailbox<Envelope>>;
  readonly #inboxes = new Map<string, Promise<Mailbox<Envelope>>>();
  readonly #agents = new Map<string, Agent>();
  readonly #ids = new MessageIds();
  readonly #peers: Peers;
  #cancelTouch: Cancel | undefined;
  #closed = false;

  /** Nothing is read or watched before the first agent. */
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

  /** Lets an agent take part: its state is `running` from here, whatever the board said before. */
  async enrol(options: AgentOptions): Promise<Agent> {
    const [agent] = await this.enrolAll([options]);
    return agent!;
  }

  /** The same for many, with one write to the board. */
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
   * Sends a message, unless its receiver is stopping or gone: then nothing is stored, and the sender is
   * told so, waits, or reaches somebody else, as `whenPaused` has it. A full inbox pushes back: it
   * rejects with a `MailboxFullError`.
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
      const verdict = verdictOn(record, options.whenPaused ?? "tell");
      if (verdict.kind === "refuse") return { outcome: verdict.outcome, to: receiver, record };
      if (verdict.kind === "accept") break;
      if (verdict.kind === "hold") await this.#peers.change(record, options.signal);
      else if (tried.has(verdict.to)) return { outcome: "paused", to: receiver, record };
      else tried.add(receiver = checkAgentId(verdict.to));
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

  /** The inbox of an agent, opened at most once. */
  inboxOf(agentId: string): Promise<Mailbox<Envelope>> {
    const own = this.#agents.get(agentId)?.inbox;
    if (own !== undefined) return Promise.resolve(own);
    let inbox = this.#inboxes.get(agentId);
    if (inbox === undefined) {
      inbox = Promise.resolve().then(() => this.#openInbox(agentId));
      this.#inboxes.set(agentId, inbox);
      inbox.catch(() => this.#inboxes.delete(agentId)); // the next one tries again
    }
    return inbox;
  }

  /** What is known of the other agents now. */
  async peersOf(agent: Agent): Promise<readonly AgentRecord[]> {
    return (await this.board.list()).filter(({ agentId }) => agentId !== agent.id);
  }

  /** Tells all peers that these agents are stopping: one write to the board. */
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

  /** The agent is not alive any more, or says so itself. */
  endLiveness(agent: Agent): void {
    this.#agents.delete(agent.id);
    if (this.#agents.size > 0) return;
    this.#cancelTouch?.();
    this.#cancelTouch = undefined;
  }

  /** Ends what the bus does, and closes the inboxes that it has opened. The board stays open. */
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

  /** The same as `close`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Three times within the time after which an agent is taken for dead. */
  #scheduleTouch(): void {
    const { board } = this;
    this.#cancelTouch = board.clock.schedule(board.staleAfterMs / 3, () => {
      this.#scheduleTouch();
      board.touch([...this.#agents.keys()]).catch((error) => {
        board.log.warn("could not tell the board that agents are alive", { error });
      });
    });
  }
}
