// Bodies, envelopes, dead letters, checkpoints and traces: what a mailbox stores and reads again.

import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { type Codec, encodeEnvelope, jsonCodec, openEnvelope } from "../../src/mailbox/codec.ts";
import { letterCodec } from "../../src/mailbox/dead_letters.ts";
import {
  type Envelope,
  envelopeOf,
  type EnvelopeOptions,
  plainEnvelope,
} from "../../src/mailbox/envelope.ts";
import { joinProgress, type Progress, readProgress } from "../../src/mailbox/_progress.ts";
import { traceIn } from "../../src/telemetry/trace_context.ts";
import { assertSameJson, syncOutcomeOf } from "./_decoding.ts";
import type { Target } from "./_fuzz.ts";
import { json, jsonText, mutated, sometimesLong, storable, swapped, text } from "./_inputs.ts";

const UNREADABLE = {
  names: ["SerializationError"],
  text: /^The stored \w+ (is not JSON|has an invalid)/,
};

/** Valid options of a send that travel with the message. */
export const options: fc.Arbitrary<EnvelopeOptions<never>> = fc.record({
  headers: fc.dictionary(storable.filter((it) => it !== ""), storable, { maxKeys: 3 }),
  replyTo: storable,
  key: storable.filter((it) => it !== ""),
  priority: fc.nat({ max: 9 }),
  expiresInMs: fc.double({ min: 1e-9, max: Number.MAX_VALUE, noNaN: true }),
  onExpired: fc.constantFrom("deadLetter" as const, "drop" as const),
  maxDeliveries: fc.oneof(fc.integer({ min: 1 }), fc.constant(Infinity)),
  backoff: fc.record({
    minMs: fc.nat({ max: 1_000 }),
    maxMs: fc.integer({ min: 1_000, max: 43_200_000 }),
  }),
}, { requiredKeys: [] }) as fc.Arbitrary<EnvelopeOptions<never>>;

/** Texts that version 0.1 stored for a body with a trace. */
const traced = fc.tuple(
  fc.string({ unit: fc.constantFrom(..."0123456789abcdef"), minLength: 48, maxLength: 48 }),
  jsonText,
)
  .map(([hex, body]) => {
    const traceparent = `00-${hex.slice(0, 32)}-${hex.slice(32)}-01`;
    return `{"lastcall:trace":${JSON.stringify({ traceparent })},"body":${body}}`;
  });

const codec = jsonCodec();

/** A body survives its encoding. */
export const bodies: Target<unknown> = {
  name: "body",
  inputs: json,
  holds: (body) => assertSameJson(codec.decode(codec.encode(body)), body),
};

/** Any text is a body, or unreadable. */
export const storedBodies = (decode: (text: string) => unknown = codec.decode): Target<string> => ({
  name: "stored_body",
  inputs: fc.oneof(mutated(jsonText), mutated(traced)),
  holds: (text) => void syncOutcomeOf(() => decode(text), UNREADABLE),
});

/** Options are checked before the send, and survive it. */
export const envelopes: Target<unknown> = {
  name: "envelope",
  inputs: swapped(options, fc.oneof(json, fc.constantFrom(NaN, Infinity, -0, 2.5, undefined))),
  holds: (given) => {
    const refusals = {
      names: ["TypeError", "RangeError"],
      text: /^Invalid [\w.]+( .*)?: expected .*got /s,
    };
    if (typeof given !== "object" || given === null) return;
    const outcome = syncOutcomeOf(() => envelopeOf(given as EnvelopeOptions<never>), refusals);
    if ("error" in outcome) return;
    const body = codec.encode({ any: "body" });
    const meta = encodeEnvelope(codec, outcome.value, body);
    const opened = openEnvelope(codec, { body, meta });
    assertEquals(plainEnvelope(opened.envelope), plainEnvelope(outcome.value));
    assertEquals(opened.body, body);
  },
};

/** A body is not mistaken for one of version 0.1, whatever it is. */
export const lookalikes: Target<string> = {
  name: "traced_body",
  inputs: sometimesLong(
    fc.oneof(mutated(traced), jsonText),
    '{"lastcall:trace":',
    '{"lastcall:trace":{},"body":',
  ),
  holds: (body) => {
    const envelope = envelopeOf({});
    const meta = encodeEnvelope(codec, envelope, body);
    assertEquals(openEnvelope(codec, { body, meta }), { envelope, body });
    checkEnvelope(openEnvelope(codec, { body }).envelope);
  },
};

/** Asserts that an envelope has what its type says: handlers and loops rely on it. */
function checkEnvelope(envelope: Envelope): void {
  const { headers, ...fields } = envelope;
  assert(typeof headers === "object" && headers !== null && !Array.isArray(headers), "no headers");
  for (const value of Object.values(headers)) assert(typeof value === "string", `header ${value}`);
  assertEquals(envelopeOf({ headers, ...fields } as EnvelopeOptions<never>), envelope);
}

/** Stored meta is an envelope, or the message is unreadable. */
export const storedEnvelopes = (open: typeof openEnvelope = openEnvelope): Target<string> => {
  const valid = options.map((it) => codec.encodeMeta(envelopeOf(it)));
  const swappedMeta = swapped(options.map((it) => plainEnvelope(envelopeOf(it))))
    .map((it) => JSON.stringify(it) ?? "null");
  return {
    name: "stored_envelope",
    inputs: fc.oneof(mutated(valid), swappedMeta),
    holds: (meta) => {
      const outcome = syncOutcomeOf(() => open(codec, { body: "1", meta }), UNREADABLE);
      if ("value" in outcome) checkEnvelope(outcome.value.envelope);
    },
  };
};

/** A dead letter has headers, or is no object. */
export const letters: Target<string> = {
  name: "dead_letter",
  inputs: fc.oneof(
    mutated(jsonText),
    swapped(
      fc.record({ id: text, body: json, trace: json, reason: text, enqueuedAt: fc.nat() }, {
        requiredKeys: [],
      }),
    )
      .map((it) => JSON.stringify(it) ?? "null"),
  ),
  holds: (stored) => {
    const outcome = syncOutcomeOf(
      () => (letterCodec(codec) as Codec<string>).decode(stored),
      UNREADABLE,
    );
    if ("error" in outcome || typeof outcome.value !== "object" || outcome.value === null) return;
    if (Array.isArray(outcome.value)) return;
    const { headers } = outcome.value as { readonly headers?: unknown };
    const given = Object(codec.decode(stored));
    if (!Object.hasOwn(given, "headers")) {
      assert(
        typeof headers === "object" && headers !== null && !Array.isArray(headers),
        `headers ${headers}`,
      );
    }
  },
};

const step = fc.record({ name: text, place: fc.integer({ min: 1, max: 9 }), result: json }, {
  requiredKeys: ["name", "place"],
});
const progress: fc.Arbitrary<Progress> = fc.record({
  checkpoint: fc.oneof(json, json.map((it) => ({ "lastcall:steps": it }))),
  steps: fc.array(step),
}, {
  requiredKeys: ["steps"],
}) as fc.Arbitrary<Progress>;

/** A checkpoint and steps survive being stored as one value. */
export const checkpoints: Target<Progress> = {
  name: "progress",
  inputs: progress,
  holds: (given) => assertSameJson(readProgress(stored(joinProgress(given))), given),
};

/** Any stored value is a checkpoint, or a checkpoint with steps that can be compared. */
export const storedCheckpoints: Target<unknown> = {
  name: "stored_progress",
  inputs: fc.oneof(json, swapped(progress.map((it) => stored(joinProgress(it))))),
  holds: (value) => {
    for (const { name, place } of readProgress(value).steps) {
      assert(
        typeof name === "string" && Number.isInteger(place) && place > 0,
        `step ${name} ${place}`,
      );
    }
  },
};

function stored(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}

/** A trace in headers is valid, or there is none. */
export const traces: Target<Record<string, unknown>> = {
  name: "trace",
  inputs: fc.record({
    traceparent: fc.oneof(
      sometimesLong(mutated(traced.map((it) => it.slice(34, 89))), `00-${"0".repeat(32)}-`),
      json,
    ),
    tracestate: fc.oneof(json, sometimesLong(text, "a=1,")),
  }, { requiredKeys: [] }),
  holds: (headers) => {
    const trace = traceIn(headers);
    if (trace === undefined) return;
    assert(/^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/.test(trace.traceparent));
    assert((trace.tracestate?.length ?? 0) <= 512);
  },
};
