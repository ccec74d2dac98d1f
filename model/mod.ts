// `npm run model`: checks the model of messages, leases and stops with spin. See docs/model.md.
//
//   npm run model                    all configurations and variants
//   npm run model -- --quick         what `npm test` checks
//   npm run model -- --only poison   those with this in their names; can be repeated

import process from "node:process";
import { parseArgs } from "node:util";
import { type Check, check, type Finding, findTools, type Tools } from "./checker.ts";
import { type Configuration, configurations } from "./configurations.ts";
import { type Limit, limits, variants } from "./variants.ts";

/** The time limit of each program. The longest search takes about a minute. */
const TIMEOUT_MS = 900_000;

for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(130));

const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    only: { type: "string", multiple: true, default: [] },
  },
});
const isWanted = ({ name }: { readonly name: string }) =>
  values.only.length === 0 || values.only.some((part) => name.includes(part));
const wanted = configurations.filter((it) => isWanted(it) && (it.quick || !values.quick));
const broken = variants.filter(isWanted);
const beyond = values.quick ? [] : limits.filter(isWanted);
const count = wanted.length + broken.length + beyond.length;
if (count === 0) fail(`No configuration matches ${values.only.join(", ")}`);
const tools = findTools();
if (typeof tools === "string") fail(`Cannot check the model: ${tools}`);

let failed = 0;
if (wanted.length > 0) console.log(heading("configuration"));
for (const it of wanted) await report(it, (found) => resultOf(it, found));
if (broken.length > 0) console.log(`\n${heading("broken variant")}`);
for (const it of broken) await report(it, (found) => discoveryOf(it, found));
if (beyond.length > 0) console.log(`\n${heading("not guaranteed")}`);
for (const it of beyond) await report(it, (found) => discoveryOf(it, found));
console.log(`\n${count - failed} as expected, ${failed} not`);
process.exitCode = failed === 0 ? 0 : 1;

/** Checks one model and prints its row. `assess` returns whether the finding is expected, and its text. */
async function report(
  it: Check,
  assess: (found: Finding) => readonly [ok: boolean, text: string],
): Promise<void> {
  try {
    const found = await check(it, tools as Tools, TIMEOUT_MS);
    const [ok, text] = assess(found);
    if (!ok) failed++;
    const { states, transitions, depth, seconds } = found;
    const numbers = [states, transitions, depth].map((n) => n.toLocaleString("en"));
    console.log(row(it.name, ...numbers, seconds.toFixed(1), `${ok ? "" : "FAILED: "}${text}`));
  } catch (error) {
    failed++;
    console.log(row(it.name, "", "", "", "", `FAILED: ${(error as Error).message}`));
  }
}

function resultOf({ atLeast }: Configuration, { violated, states }: Finding): [boolean, string] {
  if (violated !== undefined) return [false, `${violated} is violated`];
  return states < atLeast ? [false, `fewer than ${atLeast} states`] : [true, "holds"];
}

function discoveryOf({ violates }: Limit, { violated }: Finding): [boolean, string] {
  const found = violated === undefined ? "not found" : `found by ${violated}`;
  return [violated === violates, violated === violates ? found : `${found}, not by ${violates}`];
}

function heading(what: string): string {
  return row(what, "states", "transitions", "depth", "seconds", "result");
}

function row(
  name: string,
  ...[states = "", transitions = "", depth = "", ...rest]: string[]
): string {
  const [seconds = "", result = ""] = rest;
  return name.padEnd(50) + states.padStart(11) + transitions.padStart(13) + depth.padStart(7) +
    seconds.padStart(9) + `  ${result}`;
}

function fail(message: string): never {
  console.error(message);
  process.exit(2);
}
