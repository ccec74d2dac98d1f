import type { Backend } from "./_backend.ts";
import type { Calls } from "./_calls.ts";
import { JetStream } from "./_jetstream.ts";
import { Inboxes } from "./_inboxes.ts";
import { Leases } from "./_leases.ts";
import { type Names, namesOf } from "./_names.ts";
import { Notes } from "./_notes.ts";
import { Sender } from "./_sender.ts";
import { Receiver } from "./_receiver.ts";
import { LongPoll, type LongPollOptions } from "./_long_poll.ts";
import { Streams } from "./_streams.ts";
import { OrphanedMessages } from "./_orphaned_messages.ts";
import { Acks } from "./_acks.ts";

/** The parts of the engine that serve one queue. */
export interface Queue {
  readonly names: Names;
  readonly calls: Calls;
  readonly jetStream: JetStream;
  readonly streams: Streams;
  readonly acks: Acks;
  readonly notes: Notes;
  readonly leases: Leases;
  readonly receiver: Receiver;
  readonly longPoll: LongPoll;
  readonly sender: Sender;
  readonly orphans: OrphanedMessages;
  /** Releases buffered messages and waits briefly for open calls. */
  close(): Promise<void>;
}

/** Creates and connects the parts of a queue. */
export function createQueue(
  mailbox: string,
  backend: Backend,
  maxSize: number | undefined,
  waiting: Pick<LongPollOptions, "hasListeners" | "wake">,
): Queue {
  const { connection, inboxPrefix, options } = backend;
  const { clock, log, pollIntervalMs, replicas, callTimeoutMs } = options;
  const names = namesOf(mailbox);
  const calls = backend.calls();
  const jetStream = new JetStream(calls);
  const streams = new Streams({
    ...{ mailbox, names, jetStream, log, maxSize, replicas, clock },
    retryMs: callTimeoutMs,
    hasJetStream: connection.info === undefined || connection.info.jetstream === true,
    onChange() {
      leases.clear();
      longPoll.discard();
      orphans.stop();
    },
  });
  const acks = new Acks(connection, calls);
  const notes = new Notes({ connection, calls, jetStream, streams, names, log });
  const leases = new Leases(clock, log, calls, acks);
  const subject = () => `$JS.API.CONSUMER.MSG.NEXT.${names.stream}.${streams.consumer}`;
  const inboxes = new Inboxes(connection, inboxPrefix);
  const probe = () => jetStream.consumer("check for lost requests", names.stream, streams.consumer);
  const shared = {
    mailbox,
    names,
    connection,
    clock,
    log,
    calls,
    jetStream,
    streams,
    acks,
    notes,
    subject,
  };
  const receiver = new Receiver({ ...shared, leases, inboxes, probe });
  const sender = new Sender(shared);
  const orphans = new OrphanedMessages({ ...shared, sender });
  const longPoll = new LongPoll({
    ...shared,
    inboxPrefix,
    pollIntervalMs,
    ...waiting,
    release: (messages) => receiver.release(messages),
  });
  const stopListening = backend.onChange((connected) => {
    calls.connected = connected;
    if (connected) longPoll.restart();
    else orphans.stop();
  });
  return {
    ...{
      names,
      calls,
      jetStream,
      streams,
      acks,
      notes,
      leases,
      receiver,
      longPoll,
      sender,
      orphans,
    },
    async close() {
      orphans.stop();
      await longPoll.close();
      await calls.close();
      inboxes.close();
      leases.close();
      stopListening();
    },
  };
}
