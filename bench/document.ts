// Generates docs/benchmarks.md and its charts from results.json and the explanations in missed.md.

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { root } from "../tools/runtimes.ts";
import { median, type Part } from "./_figures.ts";
import { type Bar, barChart, type Caption, dotChart, type DotRow, type Panel } from "./charts.ts";
import { type ComparisonPart, COMPARISONS } from "./comparisons.ts";
import {
  digits,
  type GoalRow,
  goalRows,
  limitText,
  measuredCells,
  outcomeText,
} from "./goal_rows.ts";
import { type Goal, GOALS } from "./goals.ts";
import { list, markdownTable, paragraph } from "./markdown.ts";
import { type Figure, type PartResult, readResults, type Results } from "./results.ts";

const RUNTIMES = ["node", "bun", "deno"] as const;
const RUNTIME_NAMES = { node: "Node", bun: "Bun", deno: "Deno" } as const;

/** The parts with a chart, and the runtime that it shows. */
const CHARTS = { redis: "node", postgres: "node", sqlite: "bun", memory: "node" } as const;

/** Writes the page and the charts. */
export async function writeDocuments(): Promise<void> {
  const missed = await readFile(join(root, "bench", "missed.md"), "utf8");
  for (const [path, content] of documents(await readResults(), missed)) {
    await writeFile(join(root, path), content);
  }
}

/** Returns the page and the charts by path. */
export function documents(results: Results, missed: string): ReadonlyMap<string, string> {
  const rows = goalRows(Object.values(results.parts).flatMap(({ figures = [] }) => figures));
  const files = new Map<string, string>();
  const image = (name: string, caption: Caption, content: string) => {
    files.set(`docs/images/bench_${name}.svg`, content);
    return `![${caption.description}](images/bench_${name}.svg)`;
  };
  const page = [
    "# Benchmarks",
    paragraph(
      "How lastcall performs compared with other packages that do the same work. `npm run bench` " +
        "generates this page from [its results](../bench/results.json); " +
        "[bench](../bench/README.md) explains the method.",
    ),
    ...machine(results),
    "## Goals",
    paragraph(
      "A ratio compares the medians of all rounds. The lowest and the highest ratio of a single " +
        "round are in parentheses. If there are several peers, the best one on that runtime counts.",
    ),
    goalImage(rows, image),
    ...goalTables(rows),
    "## Missed goals",
    ...explanations(results, rows, missed),
    ...Object.entries(results.parts).flatMap(([name, part]) =>
      part.table === undefined ? figureSection(name, part, image) : tableSection(part.table, part)
    ),
  ];
  files.set("docs/benchmarks.md", `${page.join("\n\n")}\n`);
  return files;
}

type Draw = (name: string, caption: Caption, content: string) => string;

function machine({ machine: { cores, memoryGb, system }, parts }: Results): string[] {
  const dates = Object.values(parts).map(({ date }) => date).sort();
  const [first, last] = [dates[0], dates.at(-1)];
  const versions = Object.assign({}, ...Object.values(parts).map((it) => it.versions));
  const quick = Object.values(parts).filter((it) => it.quick).length;
  return [
    paragraph(
      `Measured on ${first === last ? first : `${first} to ${last}`} on a machine with ${cores} ` +
        `cores and ${memoryGb} GB of memory (${system}). The servers ran on the same machine.` +
        (quick === 0 ? "" : ` ${quick} of ${dates.length} parts are from quick runs of 3 rounds.`),
    ),
    markdownTable([["", "version"], ...Object.entries(versions).map(([k, v]) => [k, String(v)])]),
  ];
}

function goalImage(rows: readonly GoalRow[], image: Draw): string {
  const isShown = ({ unit, measure }: Goal) => unit === "×" && measure !== "share";
  const dots = GOALS.filter(isShown).map((goal): DotRow => ({
    label: `${goal.group}, ${goal.what}`,
    dots: rows.flatMap(({ goal: { id }, runtime, outcome }) => {
      if (id !== goal.id || !("value" in outcome)) return [];
      const { value, low, high } = outcome;
      const [is, from, to] = [value, low, high].map((it) =>
        goal.better === "higher" ? it / goal.limit : goal.limit / it
      ) as [number, number, number];
      return [{ series: runtime, value: is, low: Math.min(from, to), high: Math.max(from, to) }];
    }),
  }));
  const shown = rows.filter(({ goal }) => isShown(goal));
  const met = shown.filter(({ outcome }) => "met" in outcome && outcome.met).length;
  const caption = {
    title: "Results and goals",
    description:
      `Each ratio relative to its goal, on a logarithmic scale where right is better: ${met} of ` +
      `${shown.length} goals are met. The tables below show the numbers.`,
  };
  return image("goals", caption, dotChart(caption, dots));
}

function goalTables(rows: readonly GoalRow[]): string[] {
  return [...new Set(GOALS.map(({ group }) => group))].flatMap((group) => {
    const goals = GOALS.filter((it) => it.group === group);
    const peers = goals.some(({ to }) => to !== undefined);
    const table = goals.map((goal) => [
      goal.what,
      ...(peers ? [goal.to?.join(", ") ?? ""] : []),
      limitText(goal),
      ...RUNTIMES.map((runtime) => cell(rows, goal.id, runtime)),
    ]);
    const headings = [
      "measurement",
      ...(peers ? ["compared with"] : []),
      "goal",
      ...Object.values(RUNTIME_NAMES),
    ];
    return [`### ${group}`, markdownTable([headings, ...table])];
  });
}

function cell(rows: readonly GoalRow[], id: string, runtime: string): string {
  const row = rows.find((it) => it.goal.id === id && it.runtime === runtime);
  if (row === undefined) return "–";
  if ("failed" in row.outcome) return `not measured: ${row.outcome.failed}`;
  return `${row.outcome.met ? "" : "missed: "}${outcomeText(row.outcome)}`;
}

/** Returns the missed goals with their sections of missed.md, whose headings name them: `## redis_1, redis_latency`. */
function explanations(results: Results, rows: readonly GoalRow[], missed: string): string[] {
  const lines = new Map<string, string[]>();
  const add = (id: string, line: string) => lines.set(id, [...lines.get(id) ?? [], line]);
  for (const goal of GOALS) {
    const own = rows.filter((row) => row.goal.id === goal.id).flatMap(({ runtime, outcome }) =>
      "met" in outcome && !outcome.met ? [`${RUNTIME_NAMES[runtime]} ${outcomeText(outcome)}`] : []
    );
    if (own.length > 0) {
      add(goal.id, `${goal.group}, ${goal.what}, goal ${limitText(goal)}: ${own.join(", ")}`);
    }
  }
  for (const [name, { table }] of Object.entries(results.parts)) {
    for (const { goal, measured, met } of table?.goals ?? []) {
      if (!met) add(name, `${goal}: ${measured}`);
    }
  }
  const sections = explainedSections(missed).map(({ ids, text }) => {
    const found = ids.flatMap((id) => lines.get(id) ?? []);
    for (const id of ids) lines.delete(id);
    return found.length === 0 ? [] : [list(found), text];
  });
  const rest = [...lines.values()].flat();
  const unexplained = rest.length === 0 ? [] : ["Missed goals without an explanation:", list(rest)];
  return [...sections.flat(), ...unexplained];
}

/** Returns the sections of missed.md, with the goal ids and part names that each explains. */
export function explainedSections(
  missed: string,
): readonly { readonly ids: readonly string[]; readonly text: string }[] {
  return missed.split(/^## /m).slice(1).map((section) => {
    const [heading = "", ...rest] = section.split("\n");
    return { ids: heading.split(", ").map((it) => it.trim()), text: rest.join("\n").trim() };
  });
}

function figureSection(name: string, part: PartResult, image: Draw): string[] {
  const plan = COMPARISONS[name]!;
  const figures = part.figures ?? [];
  const table = [...new Set(figures.map(({ comparison }) => comparison))].flatMap((id) => {
    const own = figures.filter(({ comparison }) => comparison === id);
    const names = [...new Set(own.flatMap(({ contenders }) => Object.keys(contenders)))];
    return names.map((contender) => [
      own[0]!.title,
      contender,
      ...RUNTIMES.map((runtime) => figureCell(own, runtime, contender)),
    ]);
  });
  const notes = [...plan.notes, ...part.missing ?? []];
  return [
    `## ${plan.title}`,
    ...notes.map((note) => paragraph(note)),
    ...(name in CHARTS ? [rateImage(name as keyof typeof CHARTS, plan, figures, image)] : []),
    markdownTable([["measurement", "contender", ...Object.values(RUNTIME_NAMES)], ...table]),
    measuredWith(part),
  ];
}

function figureCell(figures: readonly Figure[], runtime: string, contender: string): string {
  const figure = figures.find((it) => it.runtime === runtime);
  const measured = figure?.contenders[contender];
  if (figure === undefined || measured === undefined) return "–";
  const [main, cpu] = measuredCells(measured, figure.count);
  return cpu === "" ? main : `${main}, ${cpu}`;
}

function rateImage(
  name: keyof typeof CHARTS,
  { title }: ComparisonPart,
  figures: readonly Figure[],
  image: Draw,
): string {
  const runtime = CHARTS[name];
  const panels = figures.filter((it) =>
    it.runtime === runtime && !it.comparison.includes("latency")
  )
    .map((figure): Panel => ({ title: figure.title, bars: bars(figure) }));
  const fastest = panels.map(({ title, bars }) =>
    `${title}: ${bars.map(({ label, text }) => `${label} ${text}`).join(", ")}`
  );
  const caption = {
    title: `${title}: thousands of messages per second on ${RUNTIME_NAMES[runtime]}`,
    description: `Thousands of messages per second on ${RUNTIME_NAMES[runtime]}. ` +
      `${fastest.join("; ")}.`,
  };
  return image(name, caption, barChart(caption, panels));
}

function bars({ contenders, count }: Figure): Bar[] {
  return Object.entries(contenders).flatMap(([label, measured]) => {
    if ("failed" in measured) return [];
    const rates = (measured.rounds["ms"] ?? []).map((ms) => count / ms);
    const value = median(rates);
    return [{
      label,
      value,
      low: Math.min(...rates),
      high: Math.max(...rates),
      text: `${digits(value)} k/s`,
      own: label.startsWith("lastcall"),
    }];
  });
}

function tableSection({ title, table, goals, notes = [] }: Part, part: PartResult): string[] {
  const rows = goals.map((
    { goal, measured, met },
  ) => [goal, `${met ? "" : "missed: "}${measured}`]);
  return [
    `## ${title}`,
    ...notes.map((note) => paragraph(sentence(note))),
    ...(table.length > 1 ? [markdownTable(table)] : []),
    ...(rows.length > 0 ? [markdownTable([["goal", "measured"], ...rows])] : []),
    measuredWith(part),
  ];
}

function sentence(note: string): string {
  return `${note[0]?.toUpperCase()}${note.slice(1)}${/[.:!]$/.test(note) ? "" : "."}`;
}

function measuredWith({ date, quick }: PartResult): string {
  return `Measured on ${date}${quick ? " in a quick run" : ""}.`;
}
