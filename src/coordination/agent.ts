import { show } from "../_checks.ts";
import type { Runnable } from "../lifecycle/runnable.ts";
import type { Mailbox, Message } from "../mailbox/mailbox.ts";
import { type AgentMetadata, checkAgentId, type StopNotice } from "./agent_state.ts";
import type { Board } from "./board.ts";
import type { StateWriter } from "./_state_writer.ts";
import type { Envelope, ShutdownNotification } from "./envelope.ts";

/** Works on one message. When it throws, the message goes to the dead letters. */
export type AgentHandler = (
  envelope: Envelope,
  context: { readonly signal: AbortSignal },
) => unknown;

/** Does one piece of a stop. `signal` aborts when its time is up. */
export type StopHook = (context: { readonly signal: AbortSignal }) => unknown;

/** How an agent is, as its health system is told. */
export interface HealthWord {
  /** The agent that the word is about. */
  readonly agentId: string;
  /** Always false: only the way down is told. */
  readonly healthy: false;
  /** How far the stop is, and at its end whether anything was left. */
  readonly reason: "shutting_down" | "shutdown_complete" | "shutdown_incomplete";
}

/** An agent: an id, an inbox, and what is to be done with its messages and at its end. */
export interface AgentOptions {
  /** 1 to 64 letters, digits, _ or -. */
  readonly id: string;
  /** Where its messages arrive. @default {what the bus opens for this id} */
  readonly inbox?: Mailbox<Envelope>;
  /** By type of message, `*` for all that have none of their own. What has none is archived. */
  readonly handlers?: Readonly<Record<string, AgentHandler>>;
  /** What works on the inbox until the stop; it is shut down before the rest is drained. */
  readonly runnable?: Runnable;
  /** Who gets what could not be drained in time. @default {nobody: it stays in the inbox} */
  readonly successor?: string;
  /** Where messages of unknown types go. @default {the inbox's dead letters} */
  readonly archive?: Mailbox<Envelope>;
  /** Hears once of every stop of others that began while this agent was running. */
  readonly onNotification?: (notification: ShutdownNotification) => unknown;
  /** Hears that the agent is not to get work any more, and at last how its stop went. */
  readonly onHealth?: (word: HealthWord) => unknown;
  /** Ends a probe that says the agent is alive. */
  readonly stopLiveness?: StopHook;
  /** Ends processes that the agent started and that nobody waits for. */
  readonly stopOrphans?: StopHook;
  /** Lets go of the rest, one after another; one that fails does not keep the others from running. */
  readonly cleanup?: readonly StopHook[];
  /** What the board tells of it beside its state. */
  readonly metadata?: AgentMetadata;
}

/** What an agent has of the bus that it takes part in. */
export interface AgentHome {
  /** Where agents say how they are. */
  readonly board: Board;
  /** Writes what agents say of themselves. */
  readonly states: StateWriter;
  /** The inbox of any agent. */
  inboxOf(agentId: string): Promise<Mailbox<Envelope>>;
  /** Tells all peers that these agents are stopping. */
  broadcastStop(agents: readonly Agent[], why: string): Promise<void>;
  /** The agent is alive no longer. */
  endLiveness(agent: Agent): void;
}

/** An agent that takes part in a `Bus`. */
export class Agent {
  /** Unique among those that share a board. */
  readonly id: string;
  /** The bus that it takes part in. */
  readonly bus: AgentHome;
  /** Where its messages arrive. */
  readonly inbox: Mailbox<Envelope>;
  /** As it was enrolled. */
  readonly options: AgentOptions;
  readonly #sequences = new Map<string, number>();
  /** Set by the stop: from then on it is told nothing more of the stops of others. */
  stopping = false;
  /** What it has told its peers, which stays on the board for those who look later. */
  notice: StopNotice | undefined;

  /** Made by `Bus.enrol`. */
  constructor(bus: AgentHome, inbox: Mailbox<Envelope>, options: AgentOptions) {
    this.bus = bus;
    this.inbox = inbox;
    this.options = options;
    this.id = options.id;
  }

  /** What the board tells of it beside its state. */
  get metadata(): AgentMetadata {
    const { metadata = {}, successor } = this.options;
    return successor === undefined ? metadata : { ...metadata, successor };
  }

  /** How many messages it has sent to each peer. */
  get sequences(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#sequences);
  }

  /** The number of the next message to a peer. */
  nextSequence(to: string): number {
    const next = (this.#sequences.get(to) ?? 0) + 1;
    this.#sequences.set(to, next);
    return next;
  }
}

/** What works on messages of this type. */
export function handlerFor(
  { handlers = {} }: AgentOptions,
  type: string,
): AgentHandler | undefined {
  return Object.hasOwn(handlers, type) ? handlers[type] : handlers["*"];
}

/** Keeps a message that nobody works on. */
export async function archive(
  { archive }: AgentOptions,
  message: Message<Envelope>,
): Promise<void> {
  if (archive === undefined) {
    const error = `there is no handler for "${message.body.type}"`;
    return await message.bury({ reason: "unknown_type", error });
  }
  await archive.send(message.body, { id: message.id });
  await message.acknowledge();
}

/** Refuses what cannot be an agent, before anything has happened. */
export function checkAgentOptions(options: AgentOptions): AgentOptions {
  checkAgentId(options.id);
  if (options.successor !== undefined) checkAgentId(options.successor);
  if (options.successor === options.id) {
    throw new TypeError(`Invalid successor of agent "${options.id}": it cannot succeed itself`);
  }
  for (const [type, handler] of Object.entries(options.handlers ?? {})) {
    if (typeof handler === "function") continue;
    throw new TypeError(
      `Invalid handler of agent "${options.id}" for ${show(type)}: expected a function`,
    );
  }
  return options;
}
