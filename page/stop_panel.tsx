// A stop as it happens: how far it is, how much time is left, and what it waits for.

import type { JSX } from "preact";
import type { Status } from "../src/health/status.ts";
import { Cell, RowHeader, Section, Table } from "./parts.tsx";
import { count, duration, plain, several, title } from "./words.ts";

/** What a stop goes through when it skips nothing. */
const STEPS = ["running", "unready", "draining", "cancelling", "stopped"] as const;

/** More than these are counted. */
const MOST = 10;

/** Shown from the first moment of a stop on, and while the group is drained. */
export function StopPanel({ status }: { readonly status: Status }): JSX.Element | null {
  const { phase, stop, end, drained, totals } = status;
  const stopping = stop !== undefined || phase === "stopped";
  if (!stopping && !drained) return null;
  const { released, leftToExpire } = totals.figures;
  return (
    <Section id="stop" heading={stopping ? "The stop" : "Drained"}>
      {stopping && <Steps status={status} />}
      {stop && <TimeLeft stop={stop} over={phase === "stopped"} />}
      <dl class="facts">
        {stop && <Fact name="Reason">{stop.reason}</Fact>}
        {end && <Fact name="Outcome">{plain(end.outcome)}</Fact>}
        {end && <Fact name="Exit code">{end.exitCode}</Fact>}
        <Fact name="In flight">{several(totals.inFlight, "piece")} of work</Fact>
        <Fact name="Given back">{several(released, "message")}</Fact>
        {phase === "stopped" && leftToExpire > 0 && (
          <Fact name="Left to expire">{several(leftToExpire, "message")}</Fact>
        )}
      </dl>
      <Waiting status={status} />
    </Section>
  );
}

/** Only what happened is ticked; what the stop went past is marked as skipped. */
function Steps({ status: { phase, phases } }: { readonly status: Status }): JSX.Element {
  const at = STEPS.findIndex((step) => step === phase);
  const look = (step: typeof STEPS[number], i: number) => {
    if (!phases.includes(step)) return i < at ? "skipped" : "";
    return i === at && phase !== "stopped" ? "now" : "past";
  };
  return (
    <ol class="steps">
      {STEPS.map((step, i) => (
        <li key={step} class={look(step, i)} aria-current={i === at ? "step" : undefined}>
          {title(step)}
          {look(step, i) === "skipped" && <span class="unseen">, skipped</span>}
        </li>
      ))}
    </ol>
  );
}

/** JSON has no infinity: a stop without a limit has none of these numbers. */
function TimeLeft(
  { stop, over }: { readonly stop: NonNullable<Status["stop"]>; readonly over: boolean },
): JSX.Element {
  const { elapsedMs, remainingMs, timeoutMs } = stop;
  if (over) return <p class="left">It took {duration(elapsedMs)}.</p>;
  if (!timeoutMs) return <p class="left">{duration(elapsedMs)} so far, without a limit.</p>;
  return (
    <div class="left">
      <p>
        <strong>{duration(remainingMs)} left</strong> of {duration(timeoutMs)}
      </p>
      <progress aria-label="Time used" max={timeoutMs} value={timeoutMs - remainingMs} />
    </div>
  );
}

function Waiting({ status }: { readonly status: Status }): JSX.Element | null {
  const work = status.loops.flatMap(({ name, work }) => work.map((it) => ({ ...it, loop: name })))
    .sort((a, b) => b.ageMs - a.ageMs)
    .slice(0, MOST);
  if (work.length === 0) return null;
  const more = status.totals.inFlight - work.length;
  return (
    <>
      <Table caption="What it waits for, the oldest first" columns={["Work", "Loop", "#Age"]}>
        {work.map(({ id, loop, ageMs }) => (
          <tr role="row" key={`${loop} ${id}`}>
            <RowHeader>
              <code>{id}</code>
            </RowHeader>
            <Cell label="Loop">{loop}</Cell>
            <Cell label="#Age">{duration(ageMs)}</Cell>
          </tr>
        ))}
      </Table>
      {more > 0 && <p class="more">and {count(more)} more</p>}
    </>
  );
}

function Fact(
  { name, children }: {
    readonly name: string;
    readonly children: JSX.Element["props"]["children"];
  },
): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
