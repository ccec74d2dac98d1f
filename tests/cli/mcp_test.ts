import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { describe, it } from "node:test";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { openMailbox } from "../../mod.ts";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { Child, runFlags } from "../signals/_child.ts";
import { lastcall } from "./_io.ts";

const COMMAND = fileURLToPath(new URL("../../cli/mod.ts", import.meta.url));

/** The official client, connected to `lastcall mcp` in a process of its own. */
class Session implements AsyncDisposable {
  readonly #client = new Client({ name: "test", version: "1.0.0" });
  readonly #transport: StdioClientTransport;

  private constructor(args: readonly string[], env: Readonly<Record<string, string>>) {
    this.#transport = new StdioClientTransport({
      command: process.execPath,
      args: [...runFlags, COMMAND, "mcp", ...args],
      env: { ...process.env as Record<string, string>, ...env },
      stderr: "inherit",
    });
  }

  static async open(
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ): Promise<Session> {
    const session = new Session(args, env);
    await session.#client.connect(session.#transport);
    return session;
  }

  /** Sends SIGTERM to the server, and resolves when it has ended. */
  async terminate(): Promise<void> {
    const ended = new Promise<void>((resolve) => this.#client.onclose = resolve);
    process.kill(this.#transport.pid!, "SIGTERM");
    await ended;
  }

  async tools() {
    return (await this.#client.listTools()).tools;
  }

  /** Calls a tool that must succeed, and returns its structured result. */
  // deno-lint-ignore no-explicit-any -- each tool has its own result
  async call(name: string, args: Record<string, unknown> = {}): Promise<any> {
    const { isError, content, structuredContent } = await this.#client.callTool({
      name,
      arguments: args,
    });
    const text = textOf(content);
    assert(!isError, text);
    assertEquals(JSON.parse(text), structuredContent);
    return structuredContent;
  }

  /** Calls a tool that must fail, and returns the text of the error. */
  async fails(name: string, args: Record<string, unknown> = {}): Promise<string> {
    const { isError, content } = await this.#client.callTool({ name, arguments: args });
    assertEquals(isError, true);
    return textOf(content);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.close();
  }
}

function textOf([first]: readonly object[]): string {
  return (first as { readonly text: string }).text;
}

/** A server that accepts connections and says nothing. */
async function listening(): Promise<
  AsyncDisposable & { readonly port: number; readonly socket: Promise<Socket> }
> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => void sockets.add(socket.on("error", () => {})));
  const socket = new Promise<Socket>((resolve) => server.once("connection", resolve));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    socket,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Fills a mailbox with two messages and one dead letter. */
async function fill(url: string): Promise<void> {
  await using mailbox = await openMailbox(url);
  await mailbox.send({ item: "bad" }, { id: "bad" });
  const [message] = await mailbox.receive();
  await message!.deadLetter({ reason: "handler_error", error: "no such item" });
  await mailbox.send({ item: "tea" }, { id: "tea", key: "ada", headers: { tenant: "blue" } });
  await mailbox.send({ item: "x".repeat(5_000) }, { id: "long" });
}

describe("lastcall mcp", () => {
  it("lastcall mcp offers only tools that read, and tells so", async () => {
    using folder = new TempFolder();
    await using session = await Session.open([`sqlite:${folder.file()}?queue=orders`]);
    const tools = await session.tools();
    assertEquals(tools.map(({ name }) => name), ["stats", "peek", "dead_letters"]);
    assert(tools.every(({ annotations }) => annotations?.readOnlyHint));
    await assertRejects(() => session.call("send", { body: 1 }), Error, "send");
  });

  it("lastcall mcp counts messages, and shows messages and dead letters", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}?queue=orders`;
    await fill(url);
    await using session = await Session.open([url]);
    const { oldestWaitingMs, ...counts } = await session.call("stats");
    assertEquals(typeof oldestWaitingMs, "number");
    assertEquals(counts, {
      mailbox: "orders",
      engine: "SQLite",
      waiting: 2,
      delayed: 0,
      inFlight: 0,
      dead: 1,
      paused: false,
    });
    const { messages } = await session.call("peek", { limit: 1 });
    assertEquals(messages.length, 1);
    const [{ id, key, state, body, headers }] = messages;
    assertEquals(
      { id, key, state, body, headers },
      {
        id: "tea",
        key: "ada",
        state: "waiting",
        body: { item: "tea" },
        headers: { tenant: "blue" },
      },
    );
    const { deadLetters: [letter] } = await session.call("dead_letters");
    assertEquals([letter.id, letter.reason, letter.error], [
      "bad",
      "handler_error",
      "no such item",
    ]);
  });

  it("lastcall mcp shows the next page, one message by its id, and cuts long bodies", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}?queue=orders`;
    await fill(url);
    await using session = await Session.open([url]);
    const { messages: [second] } = await session.call("peek", { skip: 1 });
    assertEquals(second.id, "long");
    assertEquals(second.body.length < 4_100, true);
    assertMatch(second.body, /^\{"item":"xxx.*… \(5011 characters of JSON\)$/);
    assertEquals((await session.call("peek", { id: "tea" })).messages[0].body, { item: "tea" });
    assertEquals((await session.call("peek", { id: "none" })).messages, []);
  });

  it("lastcall mcp leaves out bodies, headers and errors with --no-bodies", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}?queue=orders`;
    await fill(url);
    await using session = await Session.open([url, "--no-bodies"]);
    const { messages: [message] } = await session.call("peek");
    const { deadLetters: [letter] } = await session.call("dead_letters");
    for (const name of ["body", "headers", "error"]) {
      assertEquals([message[name], letter[name]], [undefined, undefined], name);
    }
    assertEquals([message.id, letter.id], ["tea", "bad"]);
  });

  it("lastcall mcp sends, redrives, pauses and resumes when it is allowed to", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}?queue=orders`;
    await fill(url);
    await using session = await Session.open([url, "--allow", "all"]);
    const sent = await session.call("send", { body: { item: "cake" }, id: "cake", priority: 9 });
    assertEquals(sent, { id: "cake", stored: true });
    assertEquals(await session.call("send", { body: 1, id: "cake" }), {
      id: "cake",
      stored: false,
    });
    assertEquals(await session.call("redrive", { ids: ["none"] }), { redriven: 0 });
    assertEquals(await session.call("redrive", { ids: ["bad"] }), { redriven: 1 });
    assertEquals((await session.call("pause")).paused, true);
    const { waiting, dead, paused } = await session.call("stats");
    assertEquals({ waiting, dead, paused }, { waiting: 4, dead: 0, paused: true });
    assertEquals(await session.call("resume"), { paused: false });
    await using mailbox = await openMailbox(url);
    const [first] = await mailbox.receive();
    assertEquals([first!.id, first!.priority], ["cake", 9]);
  });

  it("lastcall mcp offers the allowed tools and no others", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}?queue=orders`;
    await using session = await Session.open([url, "--allow", "redrive", "pause"]);
    const tools = (await session.tools()).filter(({ annotations }) => !annotations?.readOnlyHint);
    assertEquals(tools.map(({ name }) => name), ["redrive", "pause"]);
  });

  it("lastcall mcp refuses arguments that do not fit, and stores nothing", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}?queue=orders`;
    await fill(url);
    await using session = await Session.open([url, "--allow", "send"]);
    assertMatch(await session.fails("send", { body: 1, priority: 10 }), /priority/);
    assertMatch(await session.fails("send", { body: 1, prioritty: 1 }), /prioritty|additional/);
    assertMatch(await session.fails("peek", { limit: 1_000 }), /limit/);
    assertMatch(await session.fails("stats", { mailbox: "other" }), /mailbox/);
    assertEquals((await session.call("stats")).waiting, 2);
  });

  it("lastcall mcp tells the model why a mailbox is away, and goes on", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}?queue=orders`;
    await using session = await Session.open([url]);
    assertMatch(await session.fails("stats"), /^No file .*: no message was sent to this mailbox/);
    await fill(url);
    assertEquals((await session.call("stats")).waiting, 2);
  });

  it("lastcall mcp serves several mailboxes by name", async () => {
    using folder = new TempFolder();
    const file = folder.file();
    await fill(`sqlite:${file}?queue=orders`);
    await using session = await Session.open([
      `sqlite:${file}?queue=orders`,
      `sqlite:${file}?queue=mails`,
    ]);
    const [first] = await session.tools();
    assertEquals(first!.inputSchema.required, ["mailbox"]);
    assertEquals((await session.call("stats", { mailbox: "orders" })).waiting, 2);
    assertEquals((await session.call("stats", { mailbox: "mails" })).waiting, 0);
  });

  it("lastcall mcp takes its mailbox from LASTCALL_MAILBOX", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}?queue=orders`;
    await fill(url);
    await using session = await Session.open([], { LASTCALL_MAILBOX: url });
    assertEquals((await session.call("stats")).waiting, 2);
  });

  it("lastcall mcp ends with its client: at the end of standard input", async () => {
    await using server = Child.start("../../../cli/mod", { args: ["mcp", "sqlite:./jobs.db"] });
    assertEquals(await server.exit(), { ...await server.exit(), code: 0, stdout: "", raw: "" });
  });

  it("lastcall mcp answers the call in progress when it gets SIGTERM, and ends", async () => {
    await using server = await listening();
    await using session = await Session.open([`nats://127.0.0.1:${server.port}?queue=orders`]);
    const answer = session.fails("stats");
    const socket = await server.socket;
    const ended = session.terminate();
    socket.destroy();
    assertMatch(await answer, /NATS/);
    await ended;
  });

  it("lastcall mcp refuses wrong usage before it serves", async () => {
    const wrong: readonly (readonly [args: readonly string[], error: RegExp])[] = [
      [[], /No mailbox: give the URLs/],
      [["memory:"], /ends with the process/],
      [["sqlite:a.db?queue=x", "sqlite:b.db?queue=x"], /Two mailboxes are named "x"/],
      [
        ["sqlite:a.db", "--allow", "purge"],
        /Allowed choices are send, redrive, pause, resume, all/,
      ],
    ];
    for (const [args, error] of wrong) {
      const { code, err } = await lastcall(["mcp", ...args]);
      assertEquals(code, 2);
      assertMatch(err, error);
    }
  });
});
