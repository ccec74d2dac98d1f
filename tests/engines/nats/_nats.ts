import { connect } from "@nats-io/transport-node";
import { type JetStreamManager, jetstreamManager } from "@nats-io/jetstream";
import { NatsMailbox, type NatsMailboxOptions } from "../../../src/engines/nats/mod.ts";
import { type Names, namesOf } from "../../../src/engines/nats/_storage_format.ts";
import { NatsEngine } from "../../../src/engines/nats/nats_engine.ts";
import {
  type NatsConnection,
  SharedConnection,
} from "../../../src/engines/nats/nats_connection.ts";
import { systemClock } from "../../../src/clock.ts";
import { silentLog } from "../../../src/log.ts";
import { systemRandom } from "../../../src/random.ts";
import { eventually, findServer, missing, nats, PrivateServer } from "../_servers.ts";

const found = await findServer(nats);
if (found !== undefined) await keepStream(found.url);

/** The server that tests share. Nothing is done there but on streams of the test's own. */
export const url: string = found?.url ?? "";

/** Options of a test or a suite: skipped, and why, where there is no server. */
export const gate: { readonly skip: string | false } = { skip: found ? false : missing(nats) };
if (found === undefined) console.warn(`skipped: ${missing(nats)}`);

/**
 * Makes a stream that stays. NATS 2.9 deletes a folder with the last stream of an account, and refuses to
 * create another stream in that moment.
 */
async function keepStream(at: string): Promise<void> {
  await using behind = await look(at);
  await eventually(() => behind.jsm.streams.add({ name: "tests-keep", subjects: ["tests-keep"] }));
}

/** Starts a server that a test may stop, freeze and kill, with a stream that stays. */
export async function startServer(): Promise<PrivateServer> {
  const server = await PrivateServer.start(nats);
  await keepStream(server.url);
  return server;
}

/** A name that no other test and no other run has. */
export function uniqueName(): string {
  return `test-${crypto.randomUUID()}`;
}

/** A connection of the client's own. */
export function connectTo(at: string = url): ReturnType<typeof connect> {
  return connect({ servers: at.replace("nats://", ""), maxReconnectAttempts: -1 });
}

/** A way to look behind the scenes. */
export async function look(
  at: string = url,
): Promise<{ readonly jsm: JetStreamManager } & AsyncDisposable> {
  const connection = await connectTo(at);
  return {
    jsm: await jetstreamManager(connection),
    [Symbol.asyncDispose]: () => connection.close(),
  };
}

/** What the server tells of the consumer of a mailbox. */
export async function consumerOf(
  jsm: JetStreamManager,
  mailbox: string,
): Promise<Awaited<ReturnType<JetStreamManager["consumers"]["info"]>>> {
  const [consumer] = await jsm.consumers.list(namesOf(mailbox).stream).next();
  return consumer!;
}

/** Removes everything that a mailbox of this name has on the server. */
export async function cleanUp(name: string, at: string = url): Promise<void> {
  await using behind = await look(at);
  const remove = ({ stream, notes }: Names) =>
    [stream, notes].map((each) => behind.jsm.streams.delete(each).catch(() => {}));
  await Promise.all([...remove(namesOf(name)), ...remove(namesOf(`${name}.dead`))]);
}

/** Opens a mailbox of a new name for a test, and removes it with all it has. */
export async function openForTest(
  at: string = url,
  options: NatsMailboxOptions = {},
): Promise<{ readonly mailbox: NatsMailbox<unknown>; readonly name: string } & AsyncDisposable> {
  const { name = uniqueName() } = options;
  const mailbox = await NatsMailbox.open<unknown>(at, { log: silentLog, ...options, name });
  return {
    mailbox,
    name,
    async [Symbol.asyncDispose]() {
      await mailbox.close();
      await cleanUp(name, at);
    },
  };
}

/** Opens the engine of a queue without a mailbox around it. */
export async function openEngine(at: string | NatsConnection, name: string): Promise<NatsEngine> {
  const connection = new SharedConnection(at, {
    clock: systemClock,
    random: systemRandom,
    log: silentLog,
    callTimeoutMs: 5_000,
    pollIntervalMs: 5_000,
    replicas: 1,
  });
  await connection.open();
  return new NatsEngine(name, connection, undefined);
}
