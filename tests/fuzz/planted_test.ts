// The targets find decoders without their checks, with any seed. The decoders here are defects on purpose.

import { test } from "node:test";
import { assert } from "@std/assert";
import { chatAdapter } from "../../src/agents/adapters/chat.ts";
import { jsonCodec } from "../../src/mailbox/codec.ts";
import { readEnvelope } from "../../src/mailbox/envelope.ts";
import { QueueControl } from "../../src/mailbox/queue_control.ts";
import { TOOLS } from "../../cli/mcp/tools.ts";
import { unpackAll } from "../../src/engines/deno_kv/_record.ts";
import { seed } from "../_seed.ts";
import { foreignFileNames } from "./_file_targets.ts";
import { type Target, violationOf } from "./_fuzz.ts";
import { replicaAnswers, workerAnswers } from "./_answer_targets.ts";
import { chats } from "./_chat_targets.ts";
import { kvRecords } from "./_kv_targets.ts";
import { toolCalls } from "./_mcp_targets.ts";
import { storedBodies, storedEnvelopes } from "./_message_targets.ts";
import { controls, loops } from "./_stored_targets.ts";
import { passwords } from "./_url_targets.ts";

const codec = jsonCodec();
// A field that cannot be compared with a number would end the process, and not the run.
const comparable = (name: string, value: unknown) => name === "toString" ? undefined : value;
const unchecked = { ...codec, decodeMeta: (meta: string) => Object(JSON.parse(meta, comparable)) };

// deno-lint-ignore no-explicit-any -- targets of any inputs
const PLANTED: Readonly<Record<string, Target<any>>> = {
  "a body that is decoded without the error of the package": storedBodies((text) =>
    JSON.parse(text)
  ),
  "stored fields that are not checked": storedEnvelopes(
    ((_: unknown, stored: { meta: string }) => {
      return { body: "1", envelope: readEnvelope(unchecked.decodeMeta(stored.meta)) };
    }) as never,
  ),
  "a codec whose messages end in the handler": loops(unchecked),
  "a pause that is read without a check": controls((state) => new QueueControl(JSON.parse(state))),
  "a file name of which only the form is checked": foreignFileNames((name) => {
    const form = /^(\d{13}-\d{8}-\w+)~(\d+)~(\d+)~([cm]*)~(.*)\.json$/s;
    const [, order, deliveries, releases, marks = "", id = ""] = form.exec(name) ?? [];
    if (order === undefined) return undefined;
    const [chosen, hasExtras] = [marks.includes("c"), marks.includes("m")];
    const counts = { deliveries: Number(deliveries), releases: Number(releases) };
    return { order, ...counts, chosen, hasExtras, id };
  }),
  "a URL whose password ends at the first @": passwords((url) => url.replace(/\/\/[^@]*@/, "//")),
  "a block of Deno KV whose records are not checked": kvRecords((entry) => {
    return (entry.value as Uint8Array[]).flatMap((it) => {
      const [seq, nonce, id, , , , deliveries] = JSON.parse(
        new TextDecoder().decode(it).split("\n")[0]!,
      );
      const [message] = unpackAll({ ...entry, value: [it] });
      return { ...message!, seq, nonce, id, deliveries };
    });
  }),
  "a tool that shows bodies although it may not": toolCalls(
    TOOLS.map((tool) => ({
      ...tool,
      call: (context, ...rest) => tool.call({ ...context, bodies: true }, ...rest),
    })),
  ),
  "an answer of a replica that is passed on as it is": replicaAnswers(async (url) => {
    const response = await fetch(`${url}/status`, { redirect: "manual" });
    const status = await response.json().catch(() => ({}));
    return response.ok ? [{ ...Object(status), url: `${url}/`, reachable: true }] : [];
  }),
  "a worker whose answer is not checked": workerAnswers((url) => ({
    at: url,
    async look() {
      const status = await (await fetch(`${url}/status`, { redirect: "manual" })).json();
      const { phase, ready, paused = false, totals, mailboxes = [] } = Object(status);
      const worker = { at: url, phase, ready, paused, loops: 0, perSecond: 1, ...totals };
      const queues = mailboxes.map((it: object) => ({ ...it, at: url }));
      return { workers: [{ acknowledged: 0, failed: 0, ...worker }], queues };
    },
    close: () => Promise.resolve(),
  })),
  "an answer of a model whose numbers are not checked": chats((options) => {
    const adapter = chatAdapter(options);
    return {
      ...adapter,
      async *evaluate(prompt, context) {
        yield* adapter.evaluate(prompt, context);
        context.budget.spend({ inputTokens: NaN, outputTokens: 0 });
      },
    };
  }),
};

for (const [defect, target] of Object.entries(PLANTED)) {
  test(`fuzzing finds ${defect} (seed ${seed})`, async () => {
    assert(
      await violationOf(target, { runs: 2_000, shrinks: false }),
      "no violation in 2 000 inputs",
    );
  });
}
