import { show } from "../_checks.ts";
import type { Runnable } from "../lifecycle/runnable.ts";
import { readEnvelope } from "../mailbox/envelope.ts";
import type { Mailbox, Message } from "../mailbox/mailbox.ts";
import type { Board } from "./board.ts";
import type { BusMessage, ShutdownNotification } from "./bus_message.ts";
import { checkAgentId, type MemberMetadata, type StopNotice } from "./member_state.ts";

/** Handles one message. When it throws, the message is dead-lettered. */
export type MemberHandler = (
  message: BusMessage,
  context: { readonly signal: AbortSignal },
) => unknown;

/** Runs as a part of a stop. `signal` aborts when its time is up. */
export type StopHook = (context: { readonly signal: AbortSignal }) => unknown;

/** A health report of a member that stops. */
export interface MemberHealth {
  /** The id of the member. */
  readonly agentId: string;
  /** Always false: only stops are reported. */
  readonly healthy: false;
  /** The progress of the stop, and at its end whether it was complete. */
  readonly reason: "shutting_down" | "shutdown_complete" | "shutdown_incomplete";
}

/** Options of a member: its id, its inbox, its handlers and its stop. */
export interface MemberOptions {
  /** 1 to 64 letters, digits, _ or -. */
  readonly id: string;
  /** The mailbox of its messages. @default {the one that the bus opens for this id} */
  readonly inbox?: Mailbox<BusMessage>;
  /** The handlers by message type; `*` for all other types. A message without a handler is archived. */
  readonly handlers?: Readonly<Record<string, MemberHandler>>;
  /** The loop that handles the inbox. It is shut down before the inbox is drained. */
  readonly runnable?: Runnable;
  /** The member that gets the messages that were not drained in time. @default {they stay in the inbox} */
  readonly successor?: string;
  /** The mailbox for messages of unknown types. @default {the inbox's dead letters} */
  readonly archive?: Mailbox<BusMessage>;
  /** Called once for every stop of peers that begins while this member runs. */
  readonly onNotification?: (notification: ShutdownNotification) => unknown;
  /** Called when the stop begins and when it ends. */
  readonly onHealth?: (health: MemberHealth) => unknown;
  /** Stops a liveness probe of the member. */
  readonly stopLiveness?: StopHook;
  /** Stops orphaned processes of the member. */
  readonly stopOrphans?: StopHook;
  /** Clean-up hooks, run one after another. All run, even if one fails. */
  readonly cleanup?: readonly StopHook[];
  /** The metadata on the board, beside the state. */
  readonly metadata?: MemberMetadata;
}

/** The part of a bus that the stop of a member uses. */
export interface MemberBus {
  /** The board with the states of the members. */
  readonly board: Board;
  /** Returns the inbox of any member. */
  inboxOf(agentId: string): Promise<Mailbox<BusMessage>>;
  /** Notifies all peers that these members are stopping. */
  broadcastStop(members: readonly Member[], why: string): Promise<void>;
  /** Stops reporting that the member is alive. */
  endLiveness(member: Member): void;
}

/** A named participant of a `Bus`, with an inbox. Its peers are the other members. */
export class Member {
  /** The id, unique on the board. */
  readonly id: string;
  /** The bus that it belongs to. */
  readonly bus: MemberBus;
  /** Where its messages arrive. */
  readonly inbox: Mailbox<BusMessage>;
  /** The options passed to `enrol`. */
  readonly options: MemberOptions;
  readonly #sequences = new Map<string, number>();
  #stopping = false;
  #notice: StopNotice | undefined;

  /** Creates a member. Only `Bus.enrol` calls it. */
  constructor(bus: MemberBus, inbox: Mailbox<BusMessage>, options: MemberOptions) {
    this.bus = bus;
    this.inbox = inbox;
    this.options = options;
    this.id = options.id;
  }

  /** The metadata on the board, beside the state. */
  get metadata(): MemberMetadata {
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

  /** True once the stop has begun. The member then gets no more notifications. */
  get stopping(): boolean {
    return this.#stopping;
  }

  /** The notice to its peers. It stays in the record for later readers. */
  get notice(): StopNotice | undefined {
    return this.#notice;
  }

  /** Marks the member as stopping. */
  beginStop(): void {
    this.#stopping = true;
  }

  /** Keeps the notice for the later records of this member. */
  setNotice(notice: StopNotice): void {
    this.#notice = notice;
  }
}

/** Returns the handler for this message type. */
export function handlerFor(
  { handlers = {} }: MemberOptions,
  type: string,
): MemberHandler | undefined {
  return Object.hasOwn(handlers, type) ? handlers[type] : handlers["*"];
}

/** Archives a message that has no handler. */
export async function archive(
  { archive }: MemberOptions,
  message: Message<BusMessage>,
): Promise<void> {
  if (archive === undefined) {
    const error = `there is no handler for "${message.body.type}"`;
    return await message.deadLetter({ reason: "unknown_type", error });
  }
  await forward(message, archive);
  await message.acknowledge();
}

/** Sends a message to another mailbox, with its envelope. The same id prevents duplicates. */
export async function forward(
  message: Message<BusMessage>,
  to: Mailbox<BusMessage>,
): Promise<void> {
  await to.send(message.body, { ...readEnvelope(message), id: message.id });
}

/** Returns the options if they are valid. */
export function checkMemberOptions(options: MemberOptions): MemberOptions {
  checkAgentId(options.id);
  if (options.successor !== undefined) checkAgentId(options.successor);
  if (options.successor === options.id) {
    throw new TypeError(`Invalid successor of member "${options.id}": it cannot succeed itself`);
  }
  for (const [type, handler] of Object.entries(options.handlers ?? {})) {
    if (typeof handler === "function") continue;
    throw new TypeError(
      `Invalid handler of member "${options.id}" for ${show(type)}: expected a function`,
    );
  }
  return options;
}
