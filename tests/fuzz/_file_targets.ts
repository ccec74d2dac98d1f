// Files and messages of members: boards, message folders, file names, settings, datasets and journals.

import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { contentOf, detailText, parseContent } from "../../src/coordination/board_store.ts";
import { messageFault } from "../../src/coordination/bus_message.ts";
import {
  type FileName,
  fitsInName,
  formatName,
  orderOf,
  parseName,
} from "../../src/coordination/directory/_file_names.ts";
import { parseExtras } from "../../src/coordination/directory/_message_folder.ts";
import { MEMBER_STATES } from "../../src/coordination/member_state.ts";
import { settingsFromEnv } from "../../src/coordination/settings.ts";
import { Dataset } from "../../src/evals/dataset.ts";
import { requestSchema, resultIssues, trialIdOf } from "../../src/evals/eval_request.ts";
import { parseResult } from "../../src/evals/journal.ts";
import { silentLog } from "../../src/log.ts";
import { assertSameJson, outcomeOf, syncOutcomeOf } from "./_decoding.ts";
import type { Target } from "./_fuzz.ts";
import { json, jsonText, mutated, sometimesLong, swapped, text } from "./_inputs.ts";

const order = fc.tuple(fc.nat(), fc.nat({ max: 99_999_999 }), fc.stringMatching(/^\w{1,9}$/))
  .map(([at, count, sender]) => orderOf(at, count, sender));
const fileName: fc.Arbitrary<FileName> = fc.record({
  order,
  deliveries: fc.nat(),
  releases: fc.nat(),
  chosen: fc.boolean(),
  hasExtras: fc.boolean(),
  id: text.filter((it) => fitsInName(it)),
  until: fc.option(fc.nat(), { nil: undefined }),
  receiptHandle: fc.stringMatching(/^\w{0,8}$/),
}).map(({ until, receiptHandle, ...visible }) =>
  until === undefined ? visible : { ...visible, until, receiptHandle }
);

/** The state of a message survives in the name of its file. */
export const fileNames: Target<FileName> = {
  name: "file_name",
  inputs: fileName,
  holds: (file) => assertEquals(parseName(formatName(file)), file),
};

/** A file that would get another name is not one of this package: the mailbox could not move it. */
export const foreignFileNames = (parse: typeof parseName = parseName): Target<string> => ({
  name: "foreign_file_name",
  inputs: sometimesLong(mutated(fileName.map(formatName)), "1".repeat(13), `${"1".repeat(15)}~`),
  holds: (name) => {
    const file = parse(name);
    if (file !== undefined) assertEquals(formatName(file), name);
  },
});

/** The position of a file that a script wrote is valid, whatever time the file has. */
export const orders: Target<number> = {
  name: "file_order",
  inputs: fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer()),
  holds: (mtimeMs) => {
    const file = {
      order: orderOf(mtimeMs, 0, "a"),
      deliveries: 0,
      releases: 0,
      chosen: false,
      hasExtras: false,
      id: "a",
    };
    assertEquals(parseName(formatName(file)), file);
  },
};

/** The extras of a message are texts, or unreadable. */
export const extras: Target<string> = {
  name: "file_extras",
  inputs: fc.oneof(
    mutated(jsonText),
    swapped(fc.record({ meta: text, checkpoint: text, replyTo: text })).map((it) =>
      JSON.stringify(it)
    ),
  ),
  holds: (stored) => {
    for (const value of Object.values(parseExtras(stored) ?? {})) void value;
    const { meta, checkpoint, replyTo } = parseExtras(stored) ?? {};
    for (const it of [meta, checkpoint, replyTo]) {
      assert(it === undefined || typeof it === "string");
    }
  },
};

const notice = fc.record({
  id: text,
  reason: text,
  agents: fc.array(text),
  sequences: fc.dictionary(text, fc.nat()),
}, {
  requiredKeys: ["id", "reason", "agents"],
});
const detail = fc.record({ metadata: fc.dictionary(text, json), notice }, {
  requiredKeys: ["metadata"],
});

/** A record of a board has what its type says, or is corrupt. */
export const records: Target<
  { readonly state: unknown; readonly at: number; readonly detail: string }
> = {
  name: "board_record",
  inputs: fc.record({
    state: fc.oneof(fc.constantFrom(...MEMBER_STATES), json),
    at: fc.double(),
    detail: fc.oneof(
      mutated(detail.map((it) => detailText(it.metadata, it.notice))),
      swapped(detail).map((it) => JSON.stringify(it)),
    ),
  }),
  holds: ({ state, at, detail }) => {
    const content = parseContent(state, at, detail);
    if (content === undefined) return;
    assert(MEMBER_STATES.includes(content.state) && Number.isFinite(content.updatedAt));
    assert(
      typeof content.metadata === "object" && content.metadata !== null &&
        !Array.isArray(content.metadata),
    );
    if (content.notice === undefined) return;
    const { id, reason, agents, sequences = {} } = content.notice;
    assert([id, reason, ...agents].every((it) => typeof it === "string"), "a notice has texts");
    assert(
      typeof sequences === "object" && !Array.isArray(sequences) &&
        Object.values(sequences).every(Number.isFinite),
    );
    assertSameJson(
      contentOf(state, at, JSON.parse(detailText(content.metadata, content.notice))),
      content,
    );
  },
};

/** A message between members has a sender, a receiver and a type, or a fault that names what is missing. */
export const busMessages: Target<unknown> = {
  name: "bus_message",
  inputs: swapped(fc.constant({
    ...{
      version: "1.0",
      msg_id: "m",
      from: "a",
      to: "b",
      timestamp: 1,
      sequence: 1,
      type: "task",
      payload: {},
      requires_ack: false,
    },
  })),
  holds: (value) => {
    if (messageFault(value) !== undefined) return;
    const { msg_id, from, to, type } = value as Record<string, unknown>;
    assert([msg_id, from, to, type].every((it) => typeof it === "string" && it !== ""));
  },
};

/** Settings are valid whatever the environment has. */
export const settings: Target<Readonly<Record<string, string>>> = {
  name: "settings",
  inputs: fc.dictionary(
    fc.constantFrom(
      "SHUTDOWN_TIMEOUT",
      "INBOX_DRAIN_INTERVAL",
      "INBOX_MAX_BATCH",
      "MESSAGE_BASE_DIR",
      "COORDINATION_STATE_DIR",
    ),
    sometimesLong(
      mutated(fc.constantFrom("5", "0.5", " .25 ", "10", `1${"0".repeat(306)}`)),
      "1",
      " ",
    ),
  ),
  holds: (env) => {
    const { timeoutMs, drainIntervalMs, maxBatch } = settingsFromEnv(
      (name) => env[name],
      silentLog,
    );
    for (const ms of [timeoutMs, drainIntervalMs]) {
      assert(ms > 0 && Number.isFinite(ms), `${ms} ms`);
    }
    assert(Number.isInteger(maxBatch) && maxBatch >= 1 && maxBatch <= 1_000);
  },
};

const sample = fc.record({ id: text, input: json, expected: json, tags: fc.array(text) }, {
  requiredKeys: ["id", "input"],
});

/** A dataset is parsed, or the error lists its invalid lines. */
export const datasets: Target<string> = {
  name: "dataset",
  inputs: sometimesLong(
    fc.oneof(
      mutated(
        fc.array(sample, { maxLength: 3 }).map((all) =>
          all.map((it) => JSON.stringify(it)).join("\n")
        ),
      ),
      fc.array(swapped(sample), { maxLength: 3 }).map((all) =>
        all.map((it) => JSON.stringify(it)).join("\r\n")
      ),
    ),
    '{"id":',
  ),
  holds: (text) => {
    const refusals = {
      names: ["DatasetError"],
      text: /^Invalid dataset: \d+ invalid lines?: line \d+: /,
    };
    const outcome = syncOutcomeOf(() => Dataset.parse(text), refusals);
    if ("error" in outcome) return;
    assertSameJson([...Dataset.parse(outcome.value.toJsonl())], [...outcome.value]);
    for (const { id } of outcome.value) {
      const result = { evaluationId: "e", experiment: "x", sampleId: id };
      assert(typeof trialIdOf(result as never) === "string");
    }
  },
};

const result = fc.record({
  evaluationId: text,
  sampleId: text,
  experiment: text,
  score: fc.record({
    value: fc.double({ min: 0, max: 1, noNaN: true }),
    passed: fc.boolean(),
    reason: text,
  }, { requiredKeys: ["value", "passed"] }),
  output: json,
  error: fc.record({ code: text, message: text }),
  latencyMs: fc.nat(),
  usage: fc.record({ inputTokens: fc.nat(), outputTokens: fc.nat() }),
  completedAt: fc.nat(),
}, {
  requiredKeys: [
    "evaluationId",
    "sampleId",
    "experiment",
    "score",
    "latencyMs",
    "usage",
    "completedAt",
  ],
});

/** A line of a journal is a result, or the error names the line. */
export const journals: Target<string> = {
  name: "journal_line",
  inputs: fc.oneof(
    mutated(result.map((it) => JSON.stringify(it))),
    swapped(result).map((it) => JSON.stringify(it)),
  ),
  holds: (line) => {
    const outcome = syncOutcomeOf(() => parseResult(line, "Line 7 of the journal a.jsonl"), {
      names: ["Error"],
      text: /^Line 7 of the journal a.jsonl is not a result: .+ Repair the line/s,
    });
    if ("error" in outcome) return;
    const { error } = outcome.value;
    assert(typeof trialIdOf(outcome.value) === "string");
    assert(error === undefined || typeof error === "object" && error !== null, `error ${error}`);
    assertEquals(resultIssues(outcome.value), []);
  },
};

/** The body of a request is one, or has issues. */
export const evalRequests: Target<unknown> = {
  name: "eval_request",
  inputs: swapped(fc.record({ evaluationId: text, sample, experiment: fc.record({ name: text }) })),
  holds: async (body) => {
    const outcome = await outcomeOf(() => requestSchema()["~standard"].validate(body), {
      names: [],
    });
    if ("error" in outcome || outcome.value.issues !== undefined) return;
    const { evaluationId, sample, experiment } = outcome.value.value;
    trialIdOf({ evaluationId, experiment: experiment.name, sampleId: sample.id } as never);
  },
};
