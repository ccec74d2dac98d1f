import type { Log } from "../../log.ts";
import type { Clock } from "../../clock.ts";
import type { Random } from "../../random.ts";
import { Calls } from "./_calls.ts";
import { JetStream } from "./_jetstream.ts";
import { Leases } from "./_leases.ts";
import { LongPoll } from "./_long_poll.ts";
import { Notes } from "./_notes.ts";
import { OrphanedMessages } from "./_orphaned_messages.ts";
import { ReceiveRequests } from "./_receive_requests.ts";
import { Receiver } from "./_receiver.ts";
import { Sender } from "./_sender.ts";
import { type Names, namesOf } from "./_storage_format.ts";
import { Streams } from "./_streams.ts";
import type { NatsConnection, SharedConnection } from "./nats_connection.ts";

/** The parts of the engine that serve one queue. Each part finds the others here. */
export class Queue {
  readonly mailbox: string;
  /** Undefined keeps the limit of an existing stream. */
  readonly maxSize: number | undefined;
  readonly names: Names;
  readonly connection: SharedConnection;
  readonly client: NatsConnection;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** The receivers that wait for messages. */
  readonly listeners: Set<() => void> = new Set();
  readonly calls: Calls;
  readonly jetStream: JetStream;
  readonly streams: Streams = new Streams(this);
  readonly notes: Notes = new Notes(this);
  readonly leases: Leases = new Leases(this);
  readonly sender: Sender = new Sender(this);
  readonly requests: ReceiveRequests = new ReceiveRequests(this);
  readonly receiver: Receiver = new Receiver(this);
  readonly longPoll: LongPoll = new LongPoll(this);
  readonly orphans: OrphanedMessages = new OrphanedMessages(this);
  readonly #stopListening: () => void;

  /** The connection must be open. */
  constructor(mailbox: string, connection: SharedConnection, maxSize: number | undefined) {
    this.mailbox = mailbox;
    this.maxSize = maxSize;
    this.names = namesOf(mailbox);
    this.connection = connection;
    this.client = connection.client;
    ({ clock: this.clock, random: this.random, log: this.log } = connection.options);
    this.calls = new Calls(connection);
    this.jetStream = new JetStream(this.calls);
    this.#stopListening = connection.onChange((connected) => {
      this.calls.connected = connected;
      if (connected) this.longPoll.restart();
      else this.orphans.stop();
    });
  }

  /** Returns the name of a call for errors: `send ("orders")`. */
  what(verb: string): string {
    return `${verb} ("${this.mailbox}")`;
  }

  /** The subject that takes receive requests. */
  get requestSubject(): string {
    return `$JS.API.CONSUMER.MSG.NEXT.${this.names.stream}.${this.streams.consumer}`;
  }

  /** Tells waiting receivers to check for messages. */
  wake(): void {
    for (const listener of this.listeners) listener();
  }

  /** Forgets all deliveries: the consumer was replaced, and acks for them have no effect. */
  forgetDeliveries(): void {
    this.leases.clear();
    this.longPoll.discard();
    this.orphans.stop();
  }

  /** Releases buffered messages and waits briefly for open calls. */
  async close(): Promise<void> {
    this.orphans.stop();
    await this.longPoll.close();
    await this.calls.close();
    this.requests.close();
    this.leases.close();
    this.#stopListening();
  }
}
