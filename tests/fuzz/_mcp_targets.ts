// The arguments that models give to the tools of `lastcall mcp`.

import { fromJsonSchema } from "@modelcontextprotocol/server";
import { readFileSync, writeFileSync } from "node:fs";
import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { argumentsSchema, TOOLS } from "../../cli/mcp/tools.ts";
import { openMailbox } from "../../mod.ts";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { outcomeOf } from "./_decoding.ts";
import type { Target } from "./_fuzz.ts";
import { json, mutated, swapped, text } from "./_inputs.ts";

/** A call as a model makes it. */
export interface ToolCall {
  readonly tool: string;
  /** What the model gives: an object, as the protocol demands. */
  readonly args: object;
  readonly bodies: boolean;
}

/** In a body, a header and the error of a handler: only a server with bodies may show it. */
const SECRET = "hunter2";

const known = fc.constantFrom("dead", "waiting", "delayed");
const id = fc.oneof({ weight: 2, arbitrary: known }, { weight: 1, arbitrary: mutated(known) });
const count = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 1, max: 9 }) },
  { weight: 1, arbitrary: fc.constantFrom(-1, 0, 0.5, 51, 2 ** 31, 2 ** 53, 1e20, 1e308) },
);
const argument = fc.record({
  mailbox: fc.constantFrom("orders", "orders", "other"),
  id,
  limit: count,
  skip: count,
  body: json,
  key: text,
  priority: count,
  delayMs: count,
  headers: fc.dictionary(text, text),
  ids: fc.array(id, { maxLength: 3 }),
  forMs: count,
}, { requiredKeys: [] });

/** The arguments that a tool has, and sometimes others. */
const call: fc.Arbitrary<ToolCall> = fc.record({
  tool: fc.constantFrom(...TOOLS.map(({ name }) => name)),
  args: fc.oneof(
    { weight: 4, arbitrary: argument },
    { weight: 1, arbitrary: swapped(argument).filter((it) => Object(it) === it) },
  ),
  bodies: fc.boolean(),
  others: fc.integer({ min: 0, max: 9 }).map((it) => it === 0),
}).map(({ tool, args, bodies, others }) => {
  const { properties } = TOOLS.find(({ name }) => name === tool)!;
  const given = Object.entries(args as object).filter(([name]) => {
    return others || name === "mailbox" || Object.hasOwn(properties, name);
  });
  return { tool, args: Object.fromEntries(given), bodies };
});

/** A call has a result, or an error that tells what to do; it shows no body that it may not, and loses none. */
export const toolCalls = (tools: typeof TOOLS = TOOLS): Target<ToolCall> => ({
  name: "mcp_arguments",
  inputs: call,
  cost: 4,
  holds: async ({ tool: name, args, bodies }) => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}?queue=orders`;
    writeFileSync(folder.file(), theFile ??= await filled());
    const context = { mailboxes: new Map([["orders", url]]), bodies };
    const tool = tools.find((it) => it.name === name)!;
    const schema = fromJsonSchema<Record<string, unknown>>(argumentsSchema(tool, context));
    const checked = await schema["~standard"].validate(args);
    if (checked.issues !== undefined) {
      return assert(checked.issues.every(({ message }) => message !== ""));
    }
    const { mailbox = "orders", ...given } = checked.value;
    const outcome = await outcomeOf(() => tool.call(context, String(mailbox), given), {
      names: ["CliError", "InvalidParameterError", "RangeError", "TypeError"],
    });
    const shown = "error" in outcome ? outcome.error.message : JSON.stringify(outcome.value);
    assert(bodies || !shown.includes(SECRET), `shows ${shown}`);
    assert(shown.length < 400_000, `${shown.length} characters for a model`);
    assertEquals(await idsIn(url), ["dead", "delayed", "waiting"]);
  },
});

let theFile: Uint8Array | undefined;

/** Returns a mailbox with three messages. */
async function filled(): Promise<Uint8Array> {
  using folder = new TempFolder();
  const secret = { headers: { secret: SECRET } };
  {
    await using mailbox = await openMailbox(`sqlite:${folder.file()}?queue=orders`);
    await mailbox.send(SECRET, { id: "dead", ...secret });
    const [message] = await mailbox.receive();
    await message!.deadLetter({ reason: "handler_error", error: SECRET });
    await mailbox.send(SECRET, { id: "waiting", ...secret });
    await mailbox.send(SECRET, { id: "delayed", delayMs: 3_600_000, ...secret });
  }
  return readFileSync(folder.file());
}

/** Returns which messages of `filled` are in the mailbox or its dead letters. */
async function idsIn(url: string): Promise<string[]> {
  await using mailbox = await openMailbox(url);
  const [messages, letters] = [await mailbox.peek!(9), await mailbox.deadLetters!.peek!(9)];
  const ids = [...messages, ...letters].map(({ id }) => id);
  return ["dead", "delayed", "waiting"].filter((id) => ids.includes(id));
}
