import { show } from "../_checks.ts";
import type { Runnable } from "../lifecycle/runnable.ts";
import type { Mailbox, Message } from "../mailbox/mailbox.ts";
import { type AgentMetadata, checkAgentId, type StopNotice } from "./agent_state.ts";
import type { Board } from "./board.ts";
import type { StateWriter } from "./_state_writer.ts";
import type { Envelope, ShutdownNotification } from "./envelope.ts";

/** Handles one message. When it throws, the message is dead-lettered. */
export type AgentHandler = (
  envelope: Envelope,
  context: { readonly signal: AbortSignal },
) => unknown;

/** Runs as a part of a stop. `signal` aborts when its time is up. */
export type StopHook = (context: { readonly signal: AbortSignal }) => unknown;

/** A health report of an agent that stops. */
export interface HealthWord {
  /** The id of the agent. */
  readonly agentId: string;
  /** Always false: only stops are reported. */
  readonly healthy: false;
  /** The progress of the stop, and at its end whether it was complete. */
  readonly reason: "shutting_down" | "shutdown_complete" | "shutdown_incomplete";
}

/** Options of an agent: its id, its inbox, its handlers and its stop. */
export interface AgentOptions {
  /** 1 to 64 letters, digits, _ or -. */
  readonly id: string;
  /** The mailbox of its messages. @default {the one that the bus opens for this id} */
  readonly inbox?: Mailbox<Envelope>;
  /** The handlers by message type; `*` for all other types. A message without a handler is archived. */
  readonly handlers?: Readonly<Record<string, AgentHandler>>;
  /** The loop that handles the inbox. It is shut down before the inbox is drained. */
  readonly runnable?: Runnable;
  /** The agent that gets the messages that were not drained in time. @default {they stay in the inbox} */
  readonly successor?: string;
  /** The mailbox for messages of unknown types. @default {the inbox's dead letters} */
  readonly archive?: Mailbox<Envelope>;
  /** Called once for every stop of other agents that begins while this agent runs. */
  readonly onNotification?: (notification: ShutdownNotification) => unknown;
  /** Called when the stop begins and when it ends. */
  readonly onHealth?: (word: HealthWord) => unknown;
  /** Stops a liveness probe of the agent. */
  readonly stopLiveness?: StopHook;
  /** Stops orphaned processes of the agent. */
  readonly stopOrphans?: StopHook;
  /** Clean-up hooks, run one after another. All run, even if one fails. */
  readonly cleanup?: readonly StopHook[];
  /** The metadata on the board, beside the state. */
  readonly metadata?: AgentMetadata;
}

/** The part of a bus that its agents use. */
export interface AgentHome {
  /** The board with the states of the agents. */
  readonly board: Board;
  /** Writes the states of the agents. */
  readonly states: StateWriter;
  /** Returns the inbox of any agent. */
  inboxOf(agentId: string): Promise<Mailbox<Envelope>>;
  /** Notifies all peers that these agents are stopping. */
  broadcastStop(agents: readonly Agent[], why: string): Promise<void>;
  /** Stops reporting that the agent is alive. */
  endLiveness(agent: Agent): void;
}

/** An agent that takes part in a `Bus`. */
export class Agent {
  /** The id, unique on the board. */
  readonly id: string;
  /** The bus that it takes part in. */
  readonly bus: AgentHome;
  /** Where its messages arrive. */
  readonly inbox: Mailbox<Envelope>;
  /** The options passed to `enrol`. */
  readonly options: AgentOptions;
  readonly #sequences = new Map<string, number>();
  /** True once the stop has begun. The agent then gets no more notifications. */
  stopping = false;
  /** The notice to its peers. It stays on the board for later readers. */
  notice: StopNotice | undefined;

  /** Creates an agent. Only `Bus.enrol` calls it. */
  constructor(bus: AgentHome, inbox: Mailbox<Envelope>, options: AgentOptions) {
    this.bus = bus;
    this.inbox = inbox;
    this.options = options;
    this.id = options.id;
  }

  /** The metadata on the board, beside the state. */
  get metadata(): AgentMetadata {
    const { metadata = {}, successor } = this.options;
    return successor === undefined ? metadata : { ...metadata, successor };
  }

  /** The number of messages sent to each peer. */
  get sequences(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#sequences);
  }

  /** Returns the number of the next message to a peer. */
  nextSequence(to: string): number {
    const next = (this.#sequences.get(to) ?? 0) + 1;
    this.#sequences.set(to, next);
    return next;
  }
}

/** Returns the handler for this message type. */
export function handlerFor(
  { handlers = {} }: AgentOptions,
  type: string,
): AgentHandler | undefined {
  return Object.hasOwn(handlers, type) ? handlers[type] : handlers["*"];
}

/** Archives a message that has no handler. */
export async function archive(
  { archive }: AgentOptions,
  message: Message<Envelope>,
): Promise<void> {
  if (archive === undefined) {
    const error = `there is no handler for "${message.body.type}"`;
    return await message.deadLetter({ reason: "unknown_type", error });
  }
  await archive.send(message.body, { id: message.id });
  await message.acknowledge();
}

/** Returns the options if they are valid. */
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
