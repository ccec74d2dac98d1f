// `lastcall mcp`: mailboxes as tools for models, over the Model Context Protocol.

import { type Command, Option } from "commander";
import process from "node:process";
import manifest from "../../deno.json" with { type: "json" };
import { systemClock } from "../../mod.ts";
import { PendingCalls } from "../../src/engines/_kit/calls.ts";
import { missingPackages } from "../../src/errors.ts";
import { messageOf, toCliError, usageError } from "../_errors.ts";
import { interruption, type Io } from "../_io.ts";
import { MAILBOXES, mailboxName } from "../_mailbox.ts";
import { examples } from "../_options.ts";
import { argumentsSchema, type Tool, type ToolContext, TOOLS } from "../mcp/tools.ts";

/** The official SDK, an optional package. A variable, because JSR would make a literal a dependency. */
const MODULE: string = "@modelcontextprotocol/server";
const STDIO_MODULE: string = "@modelcontextprotocol/server/stdio";

/** The parts of the SDK in use. */
interface Sdk {
  readonly McpServer: new (info: object, options: object) => McpServer;
  readonly fromJsonSchema: (schema: object) => unknown;
}

interface McpServer {
  registerTool(name: string, config: object, call: (args: object) => Promise<object>): void;
}

interface Transport {
  send(message: unknown): Promise<void>;
  close(): Promise<void>;
}

interface Stdio {
  readonly StdioServerTransport: new () => Transport;
  readonly serveStdio: (
    factory: () => McpServer,
    options: { readonly transport: object; readonly onerror: (error: Error) => void },
  ) => { close(): Promise<void> };
}

/** How long the calls in progress have after a signal. */
const LAST_CALL_MS = 5_000;

const CHANGES = TOOLS.filter(({ changes }) => changes).map(({ name }) => name);
const ALL = "all";

interface McpFlags {
  readonly allow?: readonly string[];
  readonly bodies: boolean;
}

/** Adds `lastcall mcp`, a Model Context Protocol server on standard input and output. */
export function addMcp(program: Command, io: Io): void {
  program.command("mcp")
    .description(
      "Serve mailboxes to models, as a Model Context Protocol server on standard input and output. " +
        "It only reads, unless --allow names tools that change something. Needs the package " +
        `${MODULE}.`,
    )
    .argument("[mailboxes...]", "URLs of the mailboxes that the tools may use")
    .addOption(
      new Option("--allow <tools...>", "tools that may change mailboxes").choices([
        ...CHANGES,
        ALL,
      ]),
    )
    .option("--no-bodies", "leave out bodies, headers and errors")
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        ["lastcall mcp sqlite:./jobs.db", "stats, peek and dead_letters"],
        ["lastcall mcp sqlite:./jobs.db --allow redrive pause", "these two as well"],
        ["lastcall mcp sqlite:./jobs.db --allow all", "all tools"],
      ),
    )
    .action(async (given: readonly string[], { allow = [], bodies }: McpFlags) => {
      const context = { mailboxes: byName(io, given), bodies };
      const allowed = TOOLS.filter(({ name, changes }) => {
        return !changes || allow.includes(name) || allow.includes(ALL);
      });
      await serve(io, context, allowed);
    });
}

function byName(io: Io, given: readonly string[]): ReadonlyMap<string, string> {
  const fallback = io.env["LASTCALL_MAILBOX"];
  const urls = given.length > 0 || !fallback ? given : [fallback];
  if (urls.length === 0) {
    throw usageError("No mailbox: give the URLs of those to serve, or set LASTCALL_MAILBOX");
  }
  const found = new Map<string, string>();
  for (const url of urls) {
    const name = mailboxName(url);
    if (found.has(name)) {
      throw usageError(`Two mailboxes are named "${name}": start one server for each`);
    }
    found.set(name, url);
  }
  return found;
}

async function serve(io: Io, context: ToolContext, tools: readonly Tool[]): Promise<void> {
  const { sdk, stdio } = await load();
  const calls = new PendingCalls();
  const transport = new stdio.StdioServerTransport();
  const { send, close } = transport;
  transport.send = (message) => calls.track(send.call(transport, message));
  const closed = new Promise<void>((resolve) => {
    transport.close = async () => {
      await close.call(transport);
      resolve();
    };
  });
  const makeServer = () => {
    const server = new sdk.McpServer(
      { name: "lastcall", version: manifest.version },
      { capabilities: { tools: {} } },
    );
    for (const tool of tools) {
      server.registerTool(tool.name, config(tool, context, sdk), (args) => {
        return calls.track(answer(tool, context, args as Record<string, unknown>));
      });
    }
    return server;
  };
  const handle = stdio.serveStdio(makeServer, {
    transport,
    onerror: (error) => io.err.write(`error: ${messageOf(error)}\n`),
  });
  const interrupted = interruption(io);
  interrupted.signal.addEventListener("abort", async () => {
    await calls.settled(LAST_CALL_MS, systemClock);
    await handle.close();
  });
  process.stdin.once("end", () => handle.close()); // the oldest supported SDK does not
  await closed;
  interrupted.end();
}

async function load(): Promise<{ readonly sdk: Sdk; readonly stdio: Stdio }> {
  try {
    return { sdk: await import(MODULE), stdio: await import(STDIO_MODULE) };
  } catch (cause) {
    throw usageError(missingPackages("lastcall mcp", [MODULE]), { cause });
  }
}

function config(tool: Tool, context: ToolContext, { fromJsonSchema }: Sdk): object {
  return {
    description: tool.description,
    inputSchema: fromJsonSchema(argumentsSchema(tool, context)),
    annotations: {
      readOnlyHint: !tool.changes,
      // None of them deletes a message.
      destructiveHint: false,
      openWorldHint: false,
    },
  };
}

/** Calls a tool. A failure is an answer too, which the model can read. */
async function answer(
  tool: Tool,
  context: ToolContext,
  { mailbox, ...args }: Record<string, unknown>,
): Promise<object> {
  const [only] = context.mailboxes.keys();
  try {
    const result = await tool.call(context, String(mailbox ?? only), args);
    return {
      content: [{ type: "text", text: JSON.stringify(result) }],
      structuredContent: JSON.parse(JSON.stringify(result)),
    };
  } catch (error) {
    return { isError: true, content: [{ type: "text", text: toCliError(error).message }] };
  }
}
