import type { Phase } from "../lifecycle/group_events.ts";
import { bar, fit, oneLine, type Paint, painter, seconds, type Style } from "./text.ts";
import type { Watchable } from "./drain_view.ts";

/** How much room there is, and whether it has colours. */
export interface FrameSize {
  readonly columns: number;
  readonly lines: number;
  readonly color: boolean;
}

const PHASE_STYLES: Readonly<Record<Phase, Style>> = {
  starting: "cyan",
  running: "green",
  unready: "yellow",
  draining: "yellow",
  cancelling: "red",
  stopped: "dim",
};

/** Below this a bar says nothing. */
const SHORTEST_BAR = 8;
const LONGEST_BAR = 40;

/** One piece of work under way, and whose it is. */
interface Work {
  readonly loop: string;
  readonly id: string;
  readonly ageMs: number;
}

/** A stop as it stands: the phase and the time left, what is in flight, and what a person can do. */
export function frame(group: Watchable, size: FrameSize): readonly string[] {
  const paint = painter(size.color);
  const works = worksOf(group);
  const room = Math.max(0, size.lines - 2);
  const shown = works.slice(0, works.length > room ? Math.max(0, room - 1) : room);
  const more = works.length - shown.length;
  return [
    headline(group, works.length, size.columns, paint),
    ...columnsOf(shown, size.columns),
    ...(more > 0 && room > 0 ? [`  … and ${more} more`] : []),
    paint("dim", fit(hint(group), size.columns)),
  ].slice(0, size.lines);
}

/** How many lines everything would take. */
export function frameLines(group: Watchable): number {
  return worksOf(group).length + 2;
}

function headline(group: Watchable, inFlight: number, columns: number, paint: Paint): string {
  const { phase, stop } = group.health();
  const left = stop === undefined
    ? ""
    : stop.timeoutMs === Infinity
    ? "no deadline"
    : `${seconds(stop.remainingMs)} left of ${seconds(stop.timeoutMs)}`;
  const tail = [left, `${inFlight} in flight`, oneLine(stop?.reason ?? "")].filter(Boolean)
    .join(" · ");
  const room = Math.min(LONGEST_BAR, columns - phase.length - tail.length - 3);
  const share = stop === undefined || stop.timeoutMs === Infinity
    ? 1
    : stop.remainingMs / (stop.timeoutMs || 1);
  const name = paint("bold", paint(PHASE_STYLES[phase], phase));
  if (room < SHORTEST_BAR) return `${name} ${fit(tail, columns - phase.length - 1)}`;
  return `${name} ${paint(PHASE_STYLES[phase], bar(share, room))} ${tail}`;
}

/** The oldest first: that is what everybody waits for. */
function worksOf(group: Watchable): readonly Work[] {
  return group.loops
    .flatMap(({ name: loop, inFlight = [] }) => inFlight.map((work) => ({ loop, ...work })))
    .sort((a, b) => b.ageMs - a.ageMs);
}

function columnsOf(works: readonly Work[], columns: number): readonly string[] {
  const rows = works.map(({ loop, id, ageMs }) =>
    [oneLine(loop), oneLine(id), seconds(ageMs)] as const
  );
  const widest = (column: 0 | 1) => Math.max(0, ...rows.map((row) => [...row[column]].length));
  const [loopWidth, idWidth] = [widest(0), Math.min(widest(1), columns - widest(0) - 14)];
  return rows.map(([loop, id, age]) => {
    return fit(`  ${loop.padEnd(loopWidth)}  ${fit(id, idWidth).padEnd(idWidth)}  ${age}`, columns);
  });
}

function hint(group: Watchable): string {
  const { phase, stop } = group.health();
  if (stop?.kind !== "signal") return "finishing what is in flight";
  return phase === "cancelling"
    ? "press Ctrl+C again to end at once"
    : "press Ctrl+C again to cancel what is in flight";
}
