// The charts of the last hour: rate and depth over all mailboxes, and the depth of one mailbox.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { History, Status } from "../src/health/status.ts";
import { read } from "./client.ts";
import { Cell, RowHeader, Section, Table } from "./parts.tsx";
import { clockTime, count, rate } from "./format.ts";

const HOUR_MS = 3_600_000;
const POLL_MS = 15_000;
const FIGURES_MS = 300_000;

/** The plane of a chart, in its own units. */
const [WIDTH, HEIGHT] = [360, 60];

/** A value at a time. Null: unknown. */
interface Point {
  readonly at: number;
  readonly value: number | null;
}

interface Series {
  readonly name: string;
  readonly points: readonly Point[];
}

/** Reads the history at once and every 15 seconds, while the process answers. */
export function useHistory(lost: boolean): History | undefined {
  const [history, setHistory] = useState<History | undefined>(undefined);
  useEffect(() => {
    if (lost) return;
    const poll = async () => {
      const found = await read<History>("history");
      if (found !== undefined) setHistory(found);
    };
    poll();
    const timer = setInterval(poll, POLL_MS);
    return () => clearInterval(timer);
  }, [lost]);
  return history;
}

/** Shows rate and depth over the last hour. */
export function Charts(
  { status, history }: { readonly status: Status; readonly history: History | undefined },
): JSX.Element | null {
  if (history === undefined) return null;
  const { at, mailboxes, totals } = status;
  const all = Object.values(history.mailboxes);
  const depth = (name: string, of: "waiting" | "inFlight") => ({
    name,
    points: points(history, sums(all.map((it) => it[of]), history.perSecond.length), {
      at,
      value: sum(mailboxes.map((it) => it[of] ?? null)),
    }),
  });
  const rates = {
    name: "Acknowledged per second",
    points: points(history, history.perSecond, { at, value: totals.perSecond ?? null }),
  };
  const depths = [depth("Waiting", "waiting"), depth("In flight", "inFlight")];
  return (
    <Section id="history" heading="Last hour">
      <div class="charts">
        <Chart series={[rates]} until={at} format={rate} />
        {all.length > 0 && <Chart series={depths} until={at} format={count} />}
      </div>
      <details>
        <summary>Figures</summary>
        <Figures series={[rates, ...(all.length > 0 ? depths : [])]} until={at} />
      </details>
    </Section>
  );
}

/** Draws the messages that waited in one mailbox. */
export function Sparkline(
  { history, mailbox }: { readonly history: History; readonly mailbox: string },
): JSX.Element | null {
  const values = history.mailboxes[mailbox]?.waiting;
  if (values === undefined) return null;
  const line = points(history, values);
  const most = top([{ name: "", points: line }]);
  return (
    <svg
      class="sparkline"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`Waiting over the last hour: at most ${count(highest(line))}`}
    >
      <path class="line" d={path(line, history.at, most)} />
    </svg>
  );
}

/** Returns the highest rate of the last hour. */
export function highestRate(history: History | undefined): number | undefined {
  return history && Math.max(0, ...history.perSecond.map((value) => value ?? 0));
}

function Chart(
  { series, until, format }: {
    readonly series: readonly Series[];
    readonly until: number;
    readonly format: (value: number) => string;
  },
): JSX.Element {
  const [pointed, setPointed] = useState<number | undefined>(undefined);
  const most = top(series);
  const [first] = series;
  const shown = pointed === undefined ? undefined : nearest(first!.points, pointed);
  const point = ({ clientX, currentTarget }: PointerEvent) => {
    const { left, width } = (currentTarget as Element).getBoundingClientRect();
    setPointed(until - HOUR_MS * (1 - (clientX - left) / width));
  };
  const at = shown?.at ?? until;
  return (
    <figure>
      <figcaption aria-hidden="true">
        {series.map(({ name, points }, i) => (
          <span key={name}>
            <i class={`key line-${i}`} />
            {name} <strong>{known(nearest(points, at)?.value, format)}</strong>
          </span>
        ))}
        <span class="when">{shown === undefined ? "now" : clockTime(shown.at)}</span>
      </figcaption>
      <div class="plane">
        <svg
          viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={series.map((it) => summary(it, format)).join(" ")}
          onPointerMove={point}
          onPointerLeave={() => setPointed(undefined)}
        >
          {[0, HEIGHT / 2, HEIGHT].map((y) => <path key={y} class="grid" d={`M0 ${y}H${WIDTH}`} />)}
          <path class="area" d={area(first!.points, until, most)} />
          {series.map(({ name, points }, i) => (
            <path key={name} class={`line line-${i}`} d={path(points, until, most)} />
          ))}
          {shown && <path class="cursor" d={`M${x(shown.at, until)} 0V${HEIGHT}`} />}
        </svg>
        <span class="top" aria-hidden="true">{format(most)}</span>
      </div>
      <div class="axis" aria-hidden="true">
        {[60, 45, 30, 15].map((minutes) => <span key={minutes}>−{minutes} min</span>)}
        <span>now</span>
      </div>
    </figure>
  );
}

/** Lists the highest values of every five minutes, the newest first. */
function Figures(
  { series, until }: { readonly series: readonly Series[]; readonly until: number },
): JSX.Element {
  const ends = Array.from({ length: HOUR_MS / FIGURES_MS }, (_, i) => until - i * FIGURES_MS);
  return (
    <Table
      caption="The highest value of every five minutes, newest first"
      columns={["Until", ...series.map(({ name }) => `#${name}`)]}
    >
      {ends.map((end, i) => (
        <tr role="row" key={i}>
          <RowHeader>{clockTime(end)}</RowHeader>
          {series.map(({ name, points }, i) => (
            <Cell key={name} label={`#${name}`}>
              {known(
                most(points.filter(({ at }) => at > end - FIGURES_MS && at <= end)),
                i === 0 ? rate : count,
              )}
            </Cell>
          ))}
        </tr>
      ))}
    </Table>
  );
}

/** Returns the samples with their times, and the live point after them. */
function points(
  { at, everyMs }: History,
  values: readonly (number | null)[],
  live?: Point,
): readonly Point[] {
  const past = values.map((value, i) => ({ at: at - (values.length - 1 - i) * everyMs, value }));
  return live === undefined || live.at < at ? past : [...past, live];
}

/** Adds lists of samples. A sum is null where all are. */
function sums(
  lists: readonly (readonly (number | null)[])[],
  length: number,
): readonly (number | null)[] {
  return Array.from({ length }, (_, i) => sum(lists.map((list) => list[i] ?? null)));
}

function sum(values: readonly (number | null)[]): number | null {
  return values.reduce((total, value) => value === null ? total : (total ?? 0) + value, null);
}

function most(points: readonly Point[]): number | undefined {
  const values = points.flatMap(({ value }) => value ?? []);
  return values.length === 0 ? undefined : Math.max(...values);
}

function highest(points: readonly Point[]): number {
  return most(points) ?? 0;
}

function known(value: number | null | undefined, format: (value: number) => string) {
  return value === null || value === undefined ? undefined : format(value);
}

/** Returns the end of the scale: a round number, not below the highest value. */
function top(series: readonly Series[]): number {
  const value = Math.max(1, ...series.map(({ points }) => highest(points)));
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((it) => it * power).find((it) => it >= value)!;
}

function nearest(points: readonly Point[], at: number): Point | undefined {
  return points.reduce<Point | undefined>(
    (best, it) => best && Math.abs(best.at - at) < Math.abs(it.at - at) ? best : it,
    undefined,
  );
}

function x(at: number, until: number): string {
  return (WIDTH * (1 - (until - at) / HOUR_MS)).toFixed(1);
}

/** Returns the lines between known neighbours, each as one run of points. */
function runs(points: readonly Point[], until: number, most: number): readonly string[][] {
  const found: string[][] = [[]];
  for (const { at, value } of points) {
    if (at < until - HOUR_MS) continue;
    if (value === null) found.push([]);
    else found.at(-1)!.push(`${x(at, until)} ${(HEIGHT * (1 - value / most)).toFixed(1)}`);
  }
  return found.filter((run) => run.length > 0);
}

function path(points: readonly Point[], until: number, most: number): string {
  return runs(points, until, most).map((run) => `M${run.join("L")}${run.length > 1 ? "" : "h.1"}`)
    .join("");
}

function area(points: readonly Point[], until: number, most: number): string {
  return runs(points, until, most).map((run) => {
    const [from, to] = [run[0]!, run.at(-1)!].map((point) => point.split(" ")[0]);
    return `M${from} ${HEIGHT}L${run.join("L")}L${to} ${HEIGHT}Z`;
  }).join("");
}

function summary({ name, points }: Series, format: (value: number) => string): string {
  const peak = most(points);
  if (peak === undefined) return `${name} over the last hour: unknown.`;
  const now = known(points.at(-1)?.value, format) ?? "unknown";
  const when = points.find(({ value }) => value === peak)!.at;
  return `${name} over the last hour: ${now} now, at most ${format(peak)} at ${clockTime(when)}.`;
}
