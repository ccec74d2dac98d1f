// Arbitrary inputs: hostile texts and values, and mutations of valid ones.

import * as fc from "fast-check";

/** Characters that a format may give a meaning. */
const SIGNS = [..."{}[]()<>\"'`\\/|:;,.?!@#%&=+-_*~^$ \t\r\n\0\u2028\ufeffüß日\u{1f600}019aZ"];

/** Any text, also with NUL, unpaired surrogates and much punctuation. */
export const text: fc.Arbitrary<string> = fc.oneof(
  fc.string({ unit: fc.constantFrom(...SIGNS), maxLength: 40 }),
  fc.string({ unit: "binary", maxLength: 20 }),
  fc.string({
    unit: fc.constantFrom(...SIGNS, "\ud800", "\udc00", "__proto__", "null", "-1", "e9"),
  }),
);

/** Texts that are names of members with a meaning. */
const NAMES = [
  "__proto__",
  "constructor",
  "prototype",
  "toString",
  "then",
  "toJSON",
  "length",
  "id",
  "",
];

/** Any value that JSON has. */
export const json: fc.Arbitrary<unknown> = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, depthIdentifier: "json" },
    fc.constantFrom(null, true, false, 0, -1, 1e308, -1e308, 0.5, 2 ** 53, "", "x", [], {}),
    text,
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.array(tie("value"), { maxLength: 4, depthIdentifier: "json" }),
    record(tie("value")),
  ),
})).value;

/** Objects with own members, also one named `__proto__`. */
function record(value: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  const name = fc.oneof(text, fc.constantFrom(...NAMES));
  return fc.array(fc.tuple(name, value), { maxLength: 4, depthIdentifier: "json" })
    .map((entries) => ownMembers(entries));
}

/** As `Object.fromEntries`, which also makes an own `__proto__`. */
function ownMembers(entries: Iterable<readonly [string, unknown]>): Record<string, unknown> {
  return Object.fromEntries(entries);
}

/** Texts that are JSON. */
export const jsonText: fc.Arbitrary<string> = json.map((value) => JSON.stringify(value));

/** Texts that UTF-8 and all engines keep. */
export const storable: fc.Arbitrary<string> = fc.string({ unit: "grapheme" })
  .filter((it) => !/\0|\p{Cs}/u.test(it));

const edit = fc.record({
  kind: fc.constantFrom("cut", "flip", "insert", "duplicate", "swap", "end"),
  at: fc.nat(),
  length: fc.nat({ max: 12 }),
  text,
});

/** Valid texts, cut, flipped, with insertions and repetitions. Some stay as they are. */
export function mutated(valid: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const edits = fc.array(edit, { maxLength: 3 });
  return fc.oneof(
    { weight: 5, arbitrary: fc.tuple(valid, edits).map(([it, all]) => all.reduce(edited, it)) },
    { weight: 1, arbitrary: text },
  );
}

function edited(text: string, { kind, at: place, length, text: other }: EditOf): string {
  const at = place % (text.length + 1);
  const [before, part, after] = [
    text.slice(0, at),
    text.slice(at, at + length),
    text.slice(at + length),
  ];
  if (kind === "cut") return before + after;
  if (kind === "end") return before;
  if (kind === "insert") return before + other + part + after;
  if (kind === "duplicate") return before + part + part + after;
  if (kind === "swap") return after + part + before;
  return before + other.slice(0, 1) + text.slice(at + 1);
}
type EditOf = typeof edit extends fc.Arbitrary<infer E> ? E : never;

/** Valid values, of which up to two parts are replaced by other values or removed. */
export function swapped<T>(
  valid: fc.Arbitrary<T>,
  others: fc.Arbitrary<unknown> = json,
): fc.Arbitrary<unknown> {
  const swaps = fc.array(
    fc.tuple(fc.array(fc.nat(), { maxLength: 4 }), fc.option(others, { nil: REMOVED })),
    {
      maxLength: 2,
    },
  );
  return fc.tuple(valid as fc.Arbitrary<unknown>, swaps).map(([value, all]) =>
    all.reduce<unknown>((it, [path, other]) => replaced(it, path, other), value)
  );
}

const REMOVED = Symbol("removed");

function replaced(value: unknown, path: readonly number[], other: unknown): unknown {
  const [first, ...rest] = path;
  const isBranch = typeof value === "object" && value !== null && Object.keys(value).length > 0;
  if (first === undefined || !isBranch) return other === REMOVED ? null : other;
  const entries = Object.entries(value);
  const index = first % entries.length;
  const isRemoved = other === REMOVED && rest.length === 0;
  const changed = entries.flatMap(([name, it], i) => {
    if (i !== index) return [[name, it] as const];
    return isRemoved ? [] : [[name, replaced(it, rest, other)] as const];
  });
  return Array.isArray(value) ? changed.map(([, it]) => it) : ownMembers(changed);
}

/** Mostly `short` texts, and some very long ones. */
export function sometimesLong(
  short: fc.Arbitrary<string>,
  ...beginnings: readonly string[]
): fc.Arbitrary<string> {
  return fc.oneof({ weight: 40, arbitrary: short }, { weight: 1, arbitrary: long(...beginnings) });
}

/** Long texts of one repeated part, which make a regular expression try all ways to divide them. */
function long(...beginnings: readonly string[]): fc.Arbitrary<string> {
  const unit = fc.oneof(
    fc.constantFrom(...SIGNS, "0", "a", " ", "a/", "0.", "%", "//", "@/"),
    text,
  );
  const parts = fc.tuple(
    fc.constantFrom("", ...beginnings),
    unit,
    fc.constantFrom(30, 100_000),
    fc.oneof(fc.constant(""), text),
  );
  return parts.map(([start, unit, times, end]) =>
    start + unit.repeat(Math.ceil(times / (unit.length || 1))) + end
  );
}
