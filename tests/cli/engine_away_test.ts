// `run --on-failure restart` while the server of its mailbox is down.

import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { freePort, hasBinary, nats, PrivateServer, redis } from "../engines/_servers.ts";
import { privateOptions, PrivatePostgres } from "../engines/postgres/_private.ts";
import { noServer, SqsServer } from "../engines/sqs/_server.ts";
import { Child } from "../signals/_child.ts";

const handler = fileURLToPath(new URL("fixtures/handler.ts", import.meta.url));

/** The SDK of Amazon takes its keys from the environment; the servers of these tests accept any. */
const KEYS = ["AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=very-secret"];

/** A private server that keeps its data while it is stopped. */
interface Server extends AsyncDisposable {
  readonly url: string;
  stop(): Promise<void>;
  start(): Promise<void>;
}

/** One engine that needs a server. */
interface Engine {
  readonly name: string;
  readonly skip: string | false;
  /** The URL of a mailbox on a server at this port. */
  readonly at: (port: number) => string;
  readonly serve: () => Promise<Server>;
}

const sqsAt = (port: number) =>
  `sqs:orders?region=us-east-1&create=true&endpoint=http://127.0.0.1:${port}`;

const engines: readonly Engine[] = [
  {
    name: "Redis",
    skip: hasBinary(redis) ? false : "no redis-server on the PATH",
    at: redis.url,
    serve: async () => privateServer(await PrivateServer.start(redis)),
  },
  {
    name: "NATS",
    skip: hasBinary(nats) ? false : "no nats-server on the PATH",
    at: nats.url,
    serve: async () => privateServer(await PrivateServer.start(nats)),
  },
  {
    name: "PostgreSQL",
    ...privateOptions,
    at: (port) => `postgres://postgres@127.0.0.1:${port}/postgres`,
    serve: () => PrivatePostgres.start(),
  },
  {
    name: "SQS",
    skip: noServer,
    at: sqsAt,
    async serve() {
      const server = await SqsServer.start({ durable: true });
      return privateServer(Object.assign(server, { url: sqsAt(server.port) }));
    },
  },
];

function privateServer(
  server: AsyncDisposable & { readonly url: string; start(): Promise<void>; kill(): Promise<void> },
): Server {
  return {
    url: server.url,
    start: () => server.start(),
    stop: () => server.kill(),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

/** Starts the command in a child process. */
function start(...args: readonly string[]): Child {
  return Child.start("../../../cli/mod", { args, wrapper: ["env", ...KEYS] });
}

/** Runs the handler on the mailbox at `url`. */
function startWorker(url: string, ...flags: readonly string[]): Child {
  return start("run", handler, "--mailbox", url, ...flags);
}

/** Starts a server that closes every connection; after `hold` it keeps the next one open, silently. */
async function silentServer(): Promise<
  { readonly port: number; hold(): Promise<void> } & Disposable
> {
  const sockets: Socket[] = [];
  let held: (() => void) | undefined;
  const server = createServer((socket) => {
    socket.on("error", () => {});
    sockets.push(socket);
    if (held === undefined) socket.destroy();
    else held();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    port,
    hold: () => new Promise((resolve) => held = resolve),
    [Symbol.dispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

describe("run --on-failure restart, while the server is down,", () => {
  for (const { name, skip, at, serve } of engines) {
    it(
      `run --on-failure restart, while the server is down, keeps trying, and works once the server is up: ${name}`,
      { skip },
      async () => {
        await using server = await serve();
        await using sender = start("send", server.url, "1");
        assertEquals((await sender.exit()).code, 0);
        await server.stop();
        await using worker = startWorker(server.url, "--on-failure", "restart");
        await worker.says("mailbox not opened; trying again");
        await server.start();
        await worker.line("did 1");
        worker.kill("SIGTERM");
        assertEquals((await worker.exit()).code, 0);
      },
    );

    it(`run --on-failure restart, while the server is down, stops at once on SIGTERM: ${name}`, {
      skip,
    }, async () => {
      await using worker = startWorker(at(await freePort()), "--on-failure", "restart");
      await worker.says("mailbox not opened; trying again");
      worker.kill("SIGTERM");
      const { code, told } = await worker.exit();
      assertEquals(code, 0);
      assertEquals(told.at(-1)?.["outcome"], "drained");
    });
  }

  it("run --on-failure restart, while the server is down, stops at once on SIGTERM while a server does not answer", async () => {
    using server = await silentServer();
    const url = redis.url(server.port);
    await using worker = startWorker(url, "--on-failure", "restart");
    await worker.says("mailbox not opened; trying again");
    await server.hold();
    worker.kill("SIGTERM");
    const { code, told } = await worker.exit();
    assertEquals(code, 0);
    // An attempt to connect without an answer takes 5 s.
    assert(Number(told.at(-1)?.["stopMs"]) < 2_500);
  });

  it("run --on-failure restart, while the server is down, answers probes as live and not ready", async () => {
    const port = await freePort();
    const flags = ["--on-failure", "restart", "--health-host", "127.0.0.1"];
    const url = redis.url(await freePort());
    await using worker = startWorker(url, ...flags, "--health-port", `${port}`);
    await worker.says("mailbox not opened; trying again");
    const status = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).status;
    assertEquals(await status("/health/live"), 200);
    assertEquals(await status("/health/ready"), 503);
    worker.kill("SIGTERM");
    assertEquals((await worker.exit()).code, 0);
  });
});

describe("run without --on-failure restart, while the server is down,", () => {
  it("run without --on-failure restart, while the server is down, exits 1 with one line", async () => {
    await using worker = startWorker(redis.url(await freePort()));
    const { code, stderr } = await worker.exit();
    assertEquals(code, 1);
    assertMatch(stderr, /^error: Redis failed to connect to redis:\/\/127\.0\.0\.1.*\n$/);
  });
});
