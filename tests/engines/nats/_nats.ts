import { connect } from "@nats-io/transport-node";
import { type JetStreamManager, jetstreamManager } from "@nats-io/jetstream";
import { NatsMailbox, type NatsMailboxOptions } from "../../../src/engines/nats/mod.ts";
import { type Names, namesOf } from "../../../src/engines/nats/_queue.ts";
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

/** The server that tests share. Each test uses only its own streams. */
export const url: string = found?.url ?? "";

/** Options of a test or a suite: skipped with a reason when there is no server. */
export const gate: { readonly skip: string | false } = { skip: found ? false : missing(nats) };
if (found === undefined) console.warn(`skipped: ${missing(nats)}`);

/**
 * Creates a stream that stays. NATS 2.9 deletes a folder with the last stream of an account, and refuses
 * to create another stream at that moment.
 */
async function keepStream(at: string): Promise<void> {
  await using behind = await look(at);
  await eventually(() => behind.jsm.streams.add({ name: "tests-keep", subjects: ["tests-keep"] }));
}

/** Starts a server that the test may stop, freeze and kill, with a stream that stays. */
export async function startServer(): Promise<PrivateServer> {
  const server = await PrivateServer.start(nats);
  await keepStream(server.url);
  return server;
}

/** Returns a name that no other test and no other run uses. */
export function uniqueName(): string {
  return `test-${crypto.randomUUID()}`;
}

/** Opens a connection of the NATS client. */
export function connectTo(at: string = url): ReturnType<typeof connect> {
  return connect({ servers: at.replace("nats://", ""), maxReconnectAttempts: -1 });
}

/** Opens a connection that manages streams and consumers. */
export async function look(
  at: string = url,
): Promise<{ readonly jsm: JetStreamManager } & AsyncDisposable> {
  const connection = await connectTo(at);
  return {
    jsm: await jetstreamManager(connection),
    [Symbol.asyncDispose]: () => connection.close(),
  };
}

/** Returns the server's information about the consumer of a mailbox. */
export async function consumerOf(
  jsm: JetStreamManager,
  mailbox: string,
): Promise<Awaited<ReturnType<JetStreamManager["consumers"]["info"]>>> {
  const [consumer] = await jsm.consumers.list(namesOf(mailbox).stream).next();
  return consumer!;
}

/** Deletes the streams of a mailbox. */
export async function cleanUp(name: string, at: string = url): Promise<void> {
  await using behind = await look(at);
  const remove = ({ stream, notes }: Names) =>
    [stream, notes].map((each) => behind.jsm.streams.delete(each).catch(() => {}));
  await Promise.all([...remove(namesOf(name)), ...remove(namesOf(`${name}.dead`))]);
}

/** Opens a mailbox with a new name for a test, and deletes its streams afterwards. */
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
