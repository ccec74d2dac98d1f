import type { Backend } from "./_backend.ts";
import type { Calls } from "./_calls.ts";
import { JetStream } from "./_jetstream.ts";
import { Lanes } from "./_lanes.ts";
import { Leases } from "./_leases.ts";
import { type Names, namesOf } from "./_names.ts";
import { Notes } from "./_notes.ts";
import { Outbox } from "./_outbox.ts";
import { Reception } from "./_reception.ts";
import { Sentry, type SentryOptions } from "./_sentry.ts";
import { Site } from "./_site.ts";
import { Strays } from "./_strays.ts";
import { Verdicts } from "./_verdicts.ts";

/** Everything that one queue works with on a connection. */
export interface Workplace {
  readonly names: Names;
  readonly calls: Calls;
  readonly jetStream: JetStream;
  readonly site: Site;
  readonly verdicts: Verdicts;
  readonly notes: Notes;
  readonly leases: Leases;
  readonly reception: Reception;
  readonly sentry: Sentry;
  readonly outbox: Outbox;
  readonly strays: Strays;
  /** Gives back what was not handed over, and waits for what is under way, so long as that is short. */
  close(): Promise<void>;
}

/** Furnishes it for those who wait for messages. */
export function workplaceOf(
  mailbox: string,
  backend: Backend,
  maxSize: number | undefined,
  waiting: Pick<SentryOptions, "isWanted" | "wake">,
): Workplace {
  const { connection, inboxPrefix, options } = backend;
  const { clock, log, pollIntervalMs, replicas, callTimeoutMs } = options;
  const names = namesOf(mailbox);
  const calls = backend.calls();
  const jetStream = new JetStream(calls);
  const site = new Site({
    ...{ mailbox, names, jetStream, log, maxSize, replicas, clock },
    retryMs: callTimeoutMs,
    hasJetStream: connection.info === undefined || connection.info.jetstream === true,
    onChange() {
      leases.forget();
      sentry.forget();
      strays.stop();
    },
  });
  const verdicts = new Verdicts(connection, calls);
  const notes = new Notes({ connection, calls, jetStream, site, names, log });
  const leases = new Leases(clock, log, calls, verdicts);
  const subject = () => `$JS.API.CONSUMER.MSG.NEXT.${names.stream}.${site.consumer}`;
  const lanes = new Lanes(connection, inboxPrefix);
  const sweep = () => jetStream.consumer("look after requests", names.stream, site.consumer);
  const shared = {
    mailbox,
    names,
    connection,
    clock,
    log,
    calls,
    jetStream,
    site,
    verdicts,
    notes,
    subject,
  };
  const reception = new Reception({ ...shared, leases, lanes, sweep });
  const outbox = new Outbox(shared);
  const strays = new Strays({ ...shared, outbox });
  const sentry = new Sentry({
    ...shared,
    inboxPrefix,
    pollIntervalMs,
    ...waiting,
    giveBack: (messages) => reception.giveBack(messages),
  });
  const stopListening = backend.onChange((connected) => {
    calls.connected = connected;
    if (connected) sentry.renew();
    else strays.stop();
  });
  return {
    ...{
      names,
      calls,
      jetStream,
      site,
      verdicts,
      notes,
      leases,
      reception,
      sentry,
      outbox,
      strays,
    },
    async close() {
      strays.stop();
      await sentry.close();
      await calls.close();
      lanes.close();
      leases.close();
      stopListening();
    },
  };
}
